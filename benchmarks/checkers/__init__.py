"""npformer's gradient check beside those of PyTorch, JAX and HIPS autograd, and beside comparisons at tolerances."""
