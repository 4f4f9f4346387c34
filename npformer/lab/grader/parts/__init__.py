"""The exercises' reference pairs: npformer's operations again, in plain NumPy, as a learner would write them.

A template is one of these files without the body of its backward; ``parts`` in a learner's file
stands for the exercises before it. The learner gets no annotations and needs no other library.
"""
