"""npformer's contenders, and the matrix products alone, which bound its speed."""
