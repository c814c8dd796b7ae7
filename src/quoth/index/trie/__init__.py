"""The legal identifiers, and which documents each names."""
