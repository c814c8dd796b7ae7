"""Several runs fused into one."""
