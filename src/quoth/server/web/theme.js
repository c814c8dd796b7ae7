// Set the colours before anything is drawn: as chosen here before, else as the system has them.
const chosen = localStorage.getItem("theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
