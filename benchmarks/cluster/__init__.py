"""A collection in shards beside the same collection in one piece: cost, latency, exactness."""
