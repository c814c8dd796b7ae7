"""The only room that knows users, devices and the environment."""
