"""Every setting, and what a collection keeps of them."""
