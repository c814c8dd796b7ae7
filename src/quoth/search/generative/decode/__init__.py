"""From scores of phrases to identifiers of the trie."""
