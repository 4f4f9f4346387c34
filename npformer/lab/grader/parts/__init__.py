"""The exercises' own pairs: npformer's operations once more, in plain NumPy, as a learner writes them.

A template is one of these files with the kernel of its backward taken out; ``parts`` in a learner's file
stands for those that are solved already. No annotations reach the learner, no other library is needed.
"""
