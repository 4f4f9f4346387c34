"""One checker in a process of its own: reads the numbers of items, a line of JSON, and writes a line about each.

echo '["jax", [0, 1, 2]]' | python -m benchmarks.checkers.child
"""

import json
import sys
import time

from benchmarks.checkers import checks
from benchmarks.checkers.listed import items


def main():
    """Answer all questions. Returns 0."""
    name, numbers = json.loads(sys.stdin.readline())
    for number in numbers:
        print(json.dumps(row_of(name, items()[number])), flush=True)
    return 0


def row_of(name, item):
    """The verdict of a checker on one item, and the processor's seconds that it took."""
    checks.quiet()
    began = time.process_time()
    verdict, words = checks.judge(name, item)
    row = {"checker": name, "list": item.list, "name": item.name, "is_right": item.is_right, "verdict": verdict}
    seconds = {"seconds": round(time.process_time() - began, 3)}
    return row | ({"words": words} if words and verdict != "wrong" else {}) | seconds


if __name__ == "__main__":
    raise SystemExit(main())
