"""What one waits for before anything happens: imports, help, a first search."""
