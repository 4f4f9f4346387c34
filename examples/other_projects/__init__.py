"""Typical mistakes of public from-scratch projects in a backward: right and wrong versions side by side."""
