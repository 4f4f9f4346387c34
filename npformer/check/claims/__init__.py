"""Claims about layers and models beyond their gradients: identities and invariants."""
