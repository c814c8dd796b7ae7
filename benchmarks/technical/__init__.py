"""Questions made of technical documentation, without a label."""
