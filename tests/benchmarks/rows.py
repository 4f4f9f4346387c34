"""Made-up rows in the form of the benchmarks' results: nothing here was measured."""

SECONDS = {"npformer-cuda": 0.001, "npformer-cuda-eager": 0.0005, "torch-fast": 0.015, "torch-graph": 0.006,
           "torch-reduce-overhead": 0.005}  # fmt: skip


def row(name, seconds, **more):
    """One contender."""
    return {
        "name": name, "threads": "1", "median": seconds, "best": seconds, "rounds": 2, "steps": 20,
        "round_medians": [seconds, seconds], "times_as_fast": {"median": 5.0, "low": 4.0, "high": 6.0},
        "others_share": 0.0, "peak_bytes": 10**8, "imports_bytes": 10**8, "of_bound": 0.5, "kernels": 170, **more,
    }  # fmt: skip


def training(size, precision, **seconds):
    """One table of a training step: seconds of some contenders, by name, with _ for -."""
    every = SECONDS | {name.replace("_", "-"): value for name, value in seconds.items()}
    return {
        "size": size, "precision": precision, "dropout": 0.1,
        "contenders": [row(name, value) for name, value in every.items()], "same": {"difference": 1e-6, "holds": True},
    }  # fmt: skip


def results():
    """The results of all parts when everything succeeds."""
    found = {
        "tests": {"code": 0, "passed": 400, "summary": "400 passed in 60 s"},
        "reverse": {"seconds": 2.5, "exact_match": 0.999, "sequences": 1000},
        "gradients": {"rows": [gradient("generator.weight", True)], "wrong": 0},
        "batches": {name: {"replayed": 455, "steps": 500, "seconds": 0.0014, "one_shape": 0.001}
                    for name in ("dates", "numbers", "scan", "language")},
    }  # fmt: skip
    for precision in ("tf32", "float32"):
        for size, seconds in zip(("tiny", "small", "mid", "base"), (0.0003, 0.0005, 0.001, 0.003), strict=True):
            for part in ("against", "train"):
                found[f"{part} {precision} {size}"] = training(size, precision, npformer_cuda=seconds)
    return found


def gradient(tensor, holds):
    """One tensor of the table."""
    return {"tensor": tensor, "shape": [3, 4], "error": 1e-7, "note": "1.0 % of the budget 1e-05", "holds": holds}
