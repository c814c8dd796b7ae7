"""Terms and where they stand: tantivy."""
