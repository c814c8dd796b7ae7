"""What a server tells of itself: logs, metrics, times."""
