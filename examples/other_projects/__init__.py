"""Mistakes of the kinds that public from-scratch projects make in a backward: right and wrong side by side."""
