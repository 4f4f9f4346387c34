"""One page in which a learner edits a backward and sees npformer's own verdict, without a network.

``libraries`` fetches MicroPython and numpy-ts; ``rewrite`` puts the grader's own files into MicroPython's words;
``page`` puts all of it into one file. ``python`` has what runs in the page beside them, ``web`` its script and style.
"""
