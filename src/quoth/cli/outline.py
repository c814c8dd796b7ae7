"""What each command does, in a line, so that `quoth --help` need not import them all."""

from __future__ import annotations

SUMMARIES = {
    "add": "Add documents, or update those whose content changed.",
    "remove": "Remove documents by their docid.",
    "sync": "Sync a collection with folders: add new files, update changed ones, remove "
    "deleted ones.",
    "watch": "Keep a collection in sync with folders until interrupted.",
    "encode": "Compute vectors for every document, and calibrate how they are fused with BM25.",
    "learn": "Learn to search these documents better, from the documents alone.",
    "search": "Find documents, best first, and show the matching passages.",
    "ask": "Answer a question in the documents' own words, citing the source of each quotation.",
    "generate": "Continue a text, with phrases from a collection's documents as additional "
    "vocabulary.",
    "run": "Search many queries and write a TREC run.",
    "evaluate": "Evaluate search against relevance judgements, with confidence intervals and "
    "latency.",
    "compare": "Compare runs with a baseline: means, confidence intervals, corrected "
    "significance tests.",
    "status": "Describe a collection: sizes, fields, settings, and whether each index is up to "
    "date.",
    "verify": "Verify every checksum, and check every index against the documents.",
    "export": "Export all documents to files that other programs can read.",
    "import": "Import documents that quoth export or another program wrote.",
    "serve": "Serve collections over HTTP: an API for programs and a web page for people.",
    "shard": "Split a collection into shards that are searched as one, with the same ranking.",
    "merge": "Merge shards into one collection with the same documents and ranking.",
    "settings": "List every setting with its default, allowed values and meaning.",
    "demo": "Search the docstrings of the Python standard library, step by step.",
    "doctor": "Show what is installed, what is missing, and which command installs it.",
    "completion": "Print the script that makes a shell complete commands, options and file names.",
    "man": "Print the manual page in roff format.",
    "train": "Train a model of your own, for search or for answers.",
    "phrases": "Build and inspect a vocabulary of phrases, the units of generated identifiers.",
    "keys": "Create and manage the keys that quoth serve --keys FILE requires.",
}
"""The first paragraph of each command's help, in the order of --help: groups come last."""
