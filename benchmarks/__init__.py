"""npformer and its peers, measured side by side: train_step, decode, ops; and npformer alone: scaling.

    python -m benchmarks.train_step      one training step, against PyTorch and against the bound by products
    python -m benchmarks.decode          greedy decoding, tokens per second
    python -m benchmarks.ops             every operation, forward and backward
    python -m benchmarks.gpu             all that is to be shown on a GPU: tests, benchmarks, targets
    python -m benchmarks.scaling         time and memory of a step against length, batch, width, depth
    python -m benchmarks.faults.files    damaged files; beside it interrupts, kernel_cache and memory
    python -m benchmarks.measured        what a command of npformer prints, and how long it takes, kept in results/
    python -m benchmarks.pages           results/ into README and docs

Run from a checkout; it is not part of the installed package. Each contender is a process of its own
(``contender``), and they take turns (``turns``). What npformer runs is in ``own``, what PyTorch runs in
``peers``, which alone imports it.
"""
