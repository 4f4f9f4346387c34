"""The other side of the fence: the only files that run in the process that runs a learner's code.

``python -I npformer/lab/grader/child`` reads one job (JSON) from its standard input, loads the learner's
source, calls forward and backward on every case, and writes what happened as lines of JSON to what was its
standard output. What the learner prints goes to standard error instead, so that no print can be mistaken
for a result. It judges nothing and holds no answers; it imports NumPy and the standard library alone, so
its files import each other by their bare names.

``fence`` says what the learner's code may not do, and what is not stopped; ``measuring`` tells a gradient
that is measured from one that is derived.
"""
