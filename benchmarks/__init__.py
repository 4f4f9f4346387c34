"""npformer and its peers, measured side by side: train_step, decode, ops.

    python -m benchmarks.train_step      one training step, against PyTorch and against the bound by products
    python -m benchmarks.decode          greedy decoding, tokens per second
    python -m benchmarks.ops             every operation, forward and backward
    python -m benchmarks.gpu             everything checked on a GPU: tests, benchmarks, targets
    python -m benchmarks.trace_page      the page of a trace in Chromium: its first paint, and the time of a step
    python -m benchmarks.run_here        the page that judges exercises in Chromium: its first verdict
    python -m benchmarks.faults.files    damaged files; beside it interrupts, kernel_cache and memory
    python -m benchmarks.measured        run commands, and keep their output and duration in results/
    python -m benchmarks.pages           results/ into README and docs

Run it from a checkout; it is not part of the installed package. Each contender runs in its own process
(``contender``), and the processes take turns (``turns``). ``own`` holds npformer's side and ``peers`` PyTorch's;
only ``peers`` imports PyTorch.
"""
