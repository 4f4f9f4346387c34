"""Everything that is checked on a GPU, in one command: the tests marked gpu, the benchmarks, the targets.

    python -m benchmarks.gpu                 nine minutes; leaves gpu-results/results.json

``parts`` lists the work, the most important first; ``__main__`` does the parts one by one, saves the results after
each, and stops in time; ``targets`` compares the results with what is wanted.
"""
