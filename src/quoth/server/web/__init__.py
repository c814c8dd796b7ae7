"""The page: plain HTML, CSS and JavaScript, served as it stands."""
