"""From vocabulary to what is looked up."""
