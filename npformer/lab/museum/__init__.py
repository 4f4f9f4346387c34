"""The museum: real bugs, re-created as small changes of the correct code, and the checks that find them."""
