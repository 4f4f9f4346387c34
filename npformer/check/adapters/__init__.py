"""Users' code as targets of the check: classes that keep their cache in themselves, and files."""
