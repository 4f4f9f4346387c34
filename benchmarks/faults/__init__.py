"""How npformer behaves under faults from outside: each module injects one kind of fault and counts the damage."""
