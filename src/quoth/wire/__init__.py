"""The JSON of hits, answers and citations: the same on the command line, over HTTP and over MCP."""
