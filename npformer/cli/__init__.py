"""The command line: one file for each command, and shared parts."""
