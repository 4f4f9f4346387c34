"""The judge of kernels that somebody else wrote: a verdict for each file, whatever it does.

The files in the order in which a kernel goes through them:

    files           what is judged, against which reference
    judging         the verdict, and its cause
    process, child  the kernel in a process of its own; ``child`` runs there
    cheats          right numbers that no backward pass made
    kept            verdicts in a file, so that an interrupted run goes on
"""
