"""The commands, each one call on `Engine` plus formatting."""
