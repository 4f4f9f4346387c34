"""The judge of kernels that somebody else wrote: a verdict for each file, whatever it does.

The files in the order in which a kernel goes through them:

    files           what is judged, against which reference
    judging         the verdict on a file, from the checks of its numbers, and its cause
    process         the kernel in a process of its own
"""
