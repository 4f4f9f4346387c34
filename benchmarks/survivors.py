"""Questions that may end the process that answers them, or hang it: a new process goes on with the next question.

    python -m benchmarks.survivors MODULE:NAME SECONDS

It reads a line of JSON, the questions, each the arguments of that function, and writes a line with each answer.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any

from benchmarks.harness import ROOT


def answers(
    where: str, questions: Sequence[Any], seconds: int = 600, each: int = 10**9, environment: Mapping[str, str] = {}
) -> Iterator[Any]:
    """The answer to each question, in processes of so many. {"code": n} if its process ended, or took too long."""
    rest = list(questions)
    while rest:
        command, pipe = [sys.executable, "-m", "benchmarks.survivors", where, str(seconds)], subprocess.PIPE
        asked = rest[:each]
        with subprocess.Popen(
            command, cwd=ROOT, env=os.environ | environment, stdin=pipe, stdout=pipe, text=True
        ) as child:
            child.stdin.write(json.dumps(asked))
            child.stdin.close()
            answered = 0
            for line in child.stdout:
                answered += 1
                yield json.loads(line)
        if answered < len(asked):
            answered += 1
            yield {"code": child.returncode}
        rest = rest[answered:]


def main():
    """Answer all questions."""
    module, _, name = sys.argv[1].partition(":")
    questions, written = json.load(sys.stdin), sys.stdout
    with redirect_stdout(sys.stderr):
        function = getattr(importlib.import_module(module), name)
        for question in questions:
            signal.alarm(int(sys.argv[2]))
            print(json.dumps(function(*question)), file=written, flush=True)


if __name__ == "__main__":
    main()
