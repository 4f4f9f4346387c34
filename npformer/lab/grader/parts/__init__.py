"""The exercises' reference pairs, in plain NumPy: operations, and composites of them.

A template is the source of a pair without the body of its backward; ``parts`` in a learner's file
stands for the exercises before it. The learner gets no annotations and needs no other library.
"""
