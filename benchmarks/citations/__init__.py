"""Cited answers: do the passages support what is said, and are quotations exact?"""
