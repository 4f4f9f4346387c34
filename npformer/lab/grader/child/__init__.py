"""The fenced side: the only files that run in the learner's process.

``python -I npformer/lab/grader/child`` reads one job (JSON) from its standard input, loads the learner's
source, calls forward and backward on every case, and writes the events as lines of JSON to its original
standard output. The learner's prints go to standard error instead, so that no print can be mistaken
for a result. It judges nothing and holds no answers. It imports only NumPy and the standard library, so
its files import each other by their bare names.

``fence`` blocks what the learner's code may not do, and documents what is not blocked. Files of ``npformer/io/child``
bound time and memory, and detect gradients that are measured instead of derived.
"""
