"""Backwards in Triton, PyTorch and JAX, as people write them, with mistakes: does the check find the line?"""
