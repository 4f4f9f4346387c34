"""The program that runs a stranger's file: a learner's, for the grader; a kernel, for the judge.

``python -I npformer/io/child`` answers what ``child_process`` asks, on the wire that ``from_process`` documents for
programs in any language. It judges nothing and holds no answers. It imports NumPy and the standard library alone, so
its files import each other by their bare names.

``limits`` bounds time and memory, ``fence`` blocks what a learner's code may not do, and says what is not blocked.
``memory`` sees what is written where it should not be, ``measuring`` gradients that are measured instead of derived.
"""
