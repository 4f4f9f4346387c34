"""npformer's contenders."""
