"""What npformer runs, and the matrix products alone that bound it."""
