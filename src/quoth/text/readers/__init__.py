"""One file per format: files to documents."""
