"""Who may do what: keys, rights, rates."""
