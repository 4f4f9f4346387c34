"""What is generated in the page about several processes: the costs of a step, and the runs that were compared."""

from benchmarks import report
from benchmarks.compare import PEER
from benchmarks.page_tables import busy, measured, of
from benchmarks.processes import COUNT, exchanged


def costs(documents):
    """A row for each contender of each size."""
    steps = of(documents, "processes")
    rows = [
        [result["size"], named(row), report.milliseconds(row["median"]), report.ratio(row["times_as_fast"]),
         *exchanged(row), busy(row["others_share"])]
        for document in steps for result in document["results"] for row in result["contenders"]
    ]  # fmt: skip
    head = (
        "size", "of one thread each", "one step, ms", "times as fast as PyTorch", "exchange, ms", "kB sent by each",
        "messages of each", "cores that others used",
    )  # fmt: skip
    return measured(steps, head, rows, "processes --save benchmarks/results/processes.json")


def named(row):
    """A contender's name; PyTorch's all have COUNT processes."""
    return f"{row['name']}, {COUNT} processes" if row["name"].startswith(PEER) else row["name"]


def same_bits(documents):
    """A row for each task and table of kernels: how much of which runs was compared, and what differs."""
    compared = of(documents, "same_bits")
    rows = []
    for document in compared:
        groups = {}
        for row in document["results"]:
            groups.setdefault((row["task"], row["kernels"], row["steps"]), []).append(row)
        for (task, kernels, steps), some in groups.items():
            processes = "; ".join(dict.fromkeys(row["processes"] for row in some))
            differ = sum(bool(row["differs"]) for row in some)
            numbers = sum(row["compared"] for row in some)
            rows.append([task, kernels, str(steps), processes, str(len(some)), f"{numbers:,}", str(differ)])
    head = ("task", "kernels", "steps", "processes", "runs", "lines and arrays compared", "runs that differ")
    return measured(compared, head, rows, "same_bits --save benchmarks/results/same-bits.json")
