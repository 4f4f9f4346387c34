"""Bugs of backward kernels that are right at normal inputs, and wrong where inputs or shapes are special."""
