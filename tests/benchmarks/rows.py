"""Made-up rows in the form of the GPU benchmarks' results: nothing here was measured."""

SECONDS = {
    "npformer-cuda": 0.001, "npformer-cuda-eager": 0.0005, "torch-textbook": 0.02,
    "torch-fast": 0.015, "torch-graph": 0.006, "torch-compile": 0.01, "torch-reduce-overhead": 0.005,
}  # fmt: skip


def row(name, seconds, **more):
    """One contender."""
    return {
        "name": name, "threads": "1", "median": seconds, "best": seconds, "rounds": 2, "steps": 20,
        "round_medians": [seconds, seconds], "times_as_fast": {"median": 5.0, "low": 4.0, "high": 6.0},
        "others_share": 0.0, "peak_bytes": 10**8, "imports_bytes": 10**8, "flop_per_second": 1e12,
        "bytes_per_second": 2e12, "of_bound": 0.5, "kernels": 170, "device_bytes": 3e8, "ready_seconds": 1.5, **more,
    }  # fmt: skip


def slowed(result):
    """A measured result with the times of a very slow machine, so that the widths of its table are known."""
    slow = {"median": 99.9, "best": 99.9, "of_bound": 0.001}
    slow |= {"tokens_per_second": 1e9, "best_tokens_per_second": 1e9}
    rows = [{**each, **{name: slow[name] for name in slow if name in each}} for each in result["contenders"]]
    return {**result, "contenders": rows}


def training(size, precision, **seconds):
    """One table of a training step: seconds of some contenders, by name, with _ for -."""
    all_seconds = SECONDS | {name.replace("_", "-"): value for name, value in seconds.items()}
    return {
        "size": size, "precision": precision, "dropout": 0.1, "left_out": [], "bound": None,
        "contenders": [row(name, value) for name, value in all_seconds.items()],
        "same": {"losses": {"npformer-cuda": 3.0}, "compared": 1, "difference": 1e-6, "holds": True},
    }  # fmt: skip


def without_peers(table):
    """Only npformer's rows."""
    npformer_rows = [each for each in table["contenders"] if each["name"].startswith("npformer")]
    return table | {"contenders": npformer_rows}


def results():
    """The results of all parts when everything succeeds."""
    results = {
        "tests": {"code": 0, "passed": 400, "summary": "400 passed in 60 s", "compile_seconds": {"tiny, tf32": 20.0}},
        "ceilings": {"products": {"tf32": 4e14, "float32": 5e13}, "memory": 4e12, "bytes": {}},
        "reverse": {"seconds": 2.5, "exact_match": 0.999, "sequences": 1000},
        "gradients": {"rows": [gradient("generator.weight", True)], "wrong": 0},
        "batches": {name: {"replayed": 455, "steps": 500, "seconds": 0.0014, "one_shape": 0.001}
                    for name in ("dates", "numbers", "scan", "language")},
        "decode": [{"size": "small", "precision": "tf32", "batch": 1, "tokens": 64, "agreement": 0.9,
                    "contenders": [row("npformer-cuda", 0.1, tokens_per_second=640.0)]}],
        "ops": [{"size": "mid", "op": "linear", "direction": "forward", "bytes": 10**6, "contenders": [
            row("npformer-cuda", 1e-5), row("torch", 2e-5)]}],
    }  # fmt: skip
    for precision in ("tf32", "float32"):
        for size, seconds in zip(("tiny", "small", "mid", "base"), (0.0003, 0.0005, 0.001, 0.003), strict=True):
            results[f"against {precision} {size}"] = training(size, precision, npformer_cuda=seconds)
            results[f"train {precision} {size}"] = without_peers(training(size, precision, npformer_cuda=seconds))
    return results


def gradient(tensor, holds):
    """One tensor of the table."""
    return {"tensor": tensor, "shape": [3, 4], "error": 1e-7, "note": "1.0 % of the budget 1e-05", "holds": holds}
