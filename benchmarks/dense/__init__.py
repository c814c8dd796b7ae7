"""How well and how fast the dense index finds what an exact search would."""
