"""Connections, bounded in number and time, and who is refused one."""
