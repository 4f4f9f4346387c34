"""The GPU backend's targets on one H200, and whether they hold: milliseconds per step with dropout 0.1."""

import statistics
from typing import NamedTuple

from npformer.io.percent import percent

CARD = "H200"
SIZES = ("tiny", "small", "mid", "base")
MILLISECONDS = (0.45, 0.80, 1.8, 12.0)  # of a step with products in TF32, at most
RATIOS = (  # precision, peer, the least speed-up
    ("tf32", "torch-reduce-overhead", (5.0, 2.8, 2.0, 1.5)),
    ("tf32", "torch-graph", (1.0, 1.0, 1.0, 0.83)),
    ("tf32", "torch-fast", (15.0, 9.0, 6.0, 2.0)),
)
#: Task: of 500 steps, how many are replayed.
REPLAYED = {"dates": 450, "numbers": 440, "scan": 400, "language": 450}
SLOWER = 1.5  # times as long as a step of one shape
REVERSE_SECONDS, REVERSE_MATCH = 3.0, 0.995


class Target(NamedTuple):
    """One target. found None: it was not measured."""

    what: str
    wanted: str
    found: str | None = None
    holds: bool | None = None


def targets(results):
    """All targets, the most important first. results: name of a part -> what it found."""
    return [
        *_tests(results),
        *_milliseconds(results),
        *_ratios(results),
        *_reverse(results),
        *_batches(results),
        *_others(results),
    ]


def best(rows):
    """npformer's fastest captured row."""
    cuda_rows = [row for row in rows if row["name"].startswith("npformer-cuda") and not row["name"].endswith("-eager")]
    return min(cuda_rows, key=lambda row: row["median"])


def times_as_fast(ours, theirs):
    """The peer's time over npformer's: the median over rounds."""
    pairs = zip(ours["round_medians"], theirs["round_medians"], strict=True)
    return statistics.median(their / our for our, their in pairs)


def train_part(size, precision):
    """The name of the part that measures a training step."""
    return f"train {precision} {size}"


def against_part(size, precision):
    """The name of the part that measures a training step in turns with the peers."""
    return f"against {precision} {size}"


def _tests(results):
    document, judged = results.get("tests"), ()
    if document:
        judged = (
            document["summary"],
            document["code"] == 0 and document["passed"] > 0,
        )  # skipped tests alone prove nothing
    yield Target("tests marked gpu", "all pass", *judged)


def _milliseconds(results):
    for size, most in zip(SIZES, MILLISECONDS, strict=True):
        document, judged = results.get(train_part(size, "tf32")), ()
        if document:
            row = best(document["contenders"])
            judged = f"{row['median'] * 1e3:.3g} ms ({row['name']})", row["median"] * 1e3 <= most
        yield Target(f"{size}, tf32", f"≤ {most:g} ms a step", *judged)


def _ratios(results):
    for precision, peer, wanted in RATIOS:
        for size, least in zip(SIZES, wanted, strict=True):
            document, judged = results.get(against_part(size, precision)), ()
            rows = {row["name"]: row for row in document["contenders"]} if document else {}
            if peer in rows:
                ratio = times_as_fast(best(document["contenders"]), rows[peer])
                judged = f"{ratio:.2f}", ratio >= least
            yield Target(f"{size}, {precision}: times as fast as {peer}", f"≥ {least:g}", *judged)


def _reverse(results):
    document, judged = results.get("reverse"), ()
    if document:
        holds = document["exact_match"] >= REVERSE_MATCH and document["seconds"] <= REVERSE_SECONDS
        judged = f"{percent(document['exact_match'])} in {document['seconds']:.2f} s", holds
    yield Target("train reverse", f"≥ {percent(REVERSE_MATCH)} exact in ≤ {REVERSE_SECONDS:g} s", *judged)


def _batches(results):
    found = results.get("batches")
    for name, least in REPLAYED.items():
        counts, times = (), ()
        if found:
            replayed, steps, slower = found[name]["replayed"], found[name]["steps"], _slower(found[name])
            counts = f"{replayed} of {steps}", replayed >= least * steps / 500
            times = f"{found[name]['seconds'] * 1e3:.3g} ms, {slower:.2f} times", slower <= SLOWER
        yield Target(f"{name}: steps that are replays", f"≥ {least} of 500", *counts)
        yield Target(f"{name}: a step of all shapes", f"≤ {SLOWER:g} times one of one shape", *times)


def _slower(found):
    return found["seconds"] / found["one_shape"]


def _others(results):
    gradients = results.get("gradients")
    yield Target(
        "gradients in float32",
        "within the error budget of float64",
        f"{len(gradients['rows'])} tensors, {gradients['wrong']} over it" if gradients else None,
        not gradients["wrong"] and bool(gradients["rows"]) if gradients else None,
    )
    for precision in ("float32", "tf32"):
        names = (name(size, precision) for name in (train_part, against_part) for size in SIZES)
        tables = [part for each in names if (part := results.get(each))]
        yield Target(
            f"{precision}: losses of all contenders",
            "the same computation",
            f"in {len(tables)} tables, furthest apart {max(part['same']['difference'] for part in tables):.0e}"
            if tables
            else None,
            all(part["same"]["holds"] for part in tables) if tables else None,
        )
