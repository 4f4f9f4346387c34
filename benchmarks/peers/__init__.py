"""What PyTorch runs; nothing else in ``benchmarks`` imports it."""
