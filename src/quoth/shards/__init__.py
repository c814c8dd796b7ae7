"""Many collections as one, here or on Ray."""
