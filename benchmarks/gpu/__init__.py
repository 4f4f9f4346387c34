"""Everything that is to be shown on a GPU, in one command: the tests marked gpu, the benchmarks, the targets.

    python -m benchmarks.gpu                 nine minutes; leaves gpu-results/results.json and results.md

``parts`` are what is done, the most important first; ``run`` does them one by one, writes down what is known
after each, and stops in time; ``targets`` says what ought to come out; ``text`` writes it for readers.
"""
