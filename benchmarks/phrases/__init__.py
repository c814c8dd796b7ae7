"""Phrase vocabularies: training and segmentation, time, memory and lengths, beside subwords."""
