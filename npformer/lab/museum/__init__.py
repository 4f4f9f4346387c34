"""The museum: real bugs and similar ones, as small changes of the correct code, and what finds them."""
