"""A real GPU by CuPy: its memory and streams, products by cuBLAS, CUDA graphs."""
