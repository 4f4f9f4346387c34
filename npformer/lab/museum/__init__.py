"""The museum: shipped bugs, and more of their kind, as small changes of the correct code, and what finds them."""
