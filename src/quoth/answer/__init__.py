"""From hits to cited text: phrases of the passages, decoding with them, citations, abstention."""
