"""A collection as tools for assistants: the Model Context Protocol."""
