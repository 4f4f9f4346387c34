"""What the programs share that run a user's code in a process apart, the grader's and the judge's.

These files import NumPy and the standard library alone, and each other by their bare names: such a program puts this
folder on its path. ``child_process`` starts it.
"""
