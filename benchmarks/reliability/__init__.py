"""What Quoth survives: system calls that fail, inputs that lie, and hours of use."""
