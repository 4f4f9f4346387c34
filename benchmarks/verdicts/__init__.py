"""Programs whose gradients checkers misjudge: right ones that look wrong, and wrong ones that look right."""
