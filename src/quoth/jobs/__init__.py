"""Long work that resumes where it stopped."""
