"""How long the host takes to make a batch of 64 training examples, for each task that needs no file.

A GPU waits meanwhile, so a batch of reverse may take 0.15 ms.

exit code: 0 within the limit, 1 not, 2 bad input
"""

import statistics

from benchmarks import report
from benchmarks.options import at_least_1, bare_parser
from npformer.data import SequenceTask
from npformer.data.real import REAL_TASKS
from npformer.io.seconds import now, since

ROWS = 64
MOST = 0.15e-3  # seconds for a batch of reverse
SEQUENCES = ("copy", "reverse", "sort")


def main():
    """Run the command; returns its exit code."""
    parser = bare_parser("batches", __doc__, json=False)
    parser.add_argument("--steps", type=at_least_1, default=1_000, help="batches of each task (default: 1000)")
    steps = parser.parse_args().steps
    taken = {name: seconds(SequenceTask(name, seed=0), steps) for name in SEQUENCES}
    taken |= {name: seconds(make(seed=0), steps) for name, make in REAL_TASKS.items()}
    rows = [[name, *map(report.milliseconds, (statistics.median(each), min(each)))] for name, each in taken.items()]
    print(report.table(("task", "median ms", "fastest ms"), rows))
    found = statistics.median(taken["reverse"])
    print(f"reverse: {report.milliseconds(found)} ms, at most {MOST * 1e3:g}: {'within' if found <= MOST else 'OVER'}")
    return int(found > MOST)


def seconds(task, steps):
    """The time of each step's batch; the first one, which plans an epoch, comes before."""
    task.batch(1, ROWS)
    taken = []
    for step in range(1, steps + 1):
        began = now()
        task.batch(step, ROWS)
        taken.append(since(began))
    return taken


if __name__ == "__main__":
    raise SystemExit(main())
