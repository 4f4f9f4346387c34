"""PyTorch's contenders; nothing else in ``benchmarks`` imports PyTorch."""
