"""A quick laboratory of learning: everything slow is kept, an arm is judged within seconds."""
