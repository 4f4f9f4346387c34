"""npformer and its peers, measured side by side; other people's operators and checkers; what the pages tell of it all.

    python -m benchmarks.train_step      one training step, against PyTorch and against the bound by products
    python -m benchmarks.decode          greedy decoding, tokens per second
    python -m benchmarks.processes       a step on two processes, against PyTorch's DDP
    python -m benchmarks.gpu             everything checked on a GPU: tests, benchmarks, targets
    python -m benchmarks.corpus          right pairs and mistakes as other people write them, judged
    python -m benchmarks.checkers        gradient checks, beside those of others
    python -m benchmarks.operators       other people's operators, judged
    python -m benchmarks.museum          what finds each bug of the museum, and what training shows of it
    python -m benchmarks.runs_gone_wrong training runs with a planted mistake, and sound ones
    python -m benchmarks.measured        run commands, and keep their output and duration in results/
    python -m benchmarks.pages           results/ into README and docs

Run it from a checkout; it is not part of the installed package. Each contender runs in its own process, and the
processes take turns (``harness``). ``own`` holds npformer's side and ``peers`` PyTorch's; of what is timed, only
``peers`` imports PyTorch.
"""
