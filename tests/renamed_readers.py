"""What everything that reads an operation's file says of it: ``python -m tests.renamed_readers layer_norm``."""

import json
import re
import sys
import tempfile
from pathlib import Path

from docs.site import operations
from npformer.explain.operation import explained_operation, sample_inputs
from npformer.explain.operation_text import operation_lines
from npformer.functional import OPERATIONS
from npformer.lab.grader.exercises import BY_NAME
from npformer.lab.grader.grade import grade_file
from npformer.lab.grader.templates import answer, pair_source
from npformer.lab.museum.bugs import BUGS
from npformer.lab.museum.patch import edited_sources
from npformer.lab.museum.text import label
from npformer.pages.trace_writer import trace_page
from npformer.tracing import trace


def readings(name):
    """Reader -> what it says."""
    exercise, home = BY_NAME[name], f"npformer.functional.{name}:"
    bugs = [bug for bug in BUGS if any(target.startswith(home) for target in bug.targets)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.py")
        path.write_text(pair_source(exercise), encoding="utf-8")
        grades = [grade.ok for grade in grade_file(path)]
    return {
        "museum": [[label(bug), edited_sources(bug.edits)] for bug in bugs],
        "explain": list(operation_lines(explained_operation(name))),
        "page": on_page(name),
        "site": [operations.headline(OPERATIONS[name], True), operations.derivation(name), operations.code(name)],
        "grader": [grades, answer(exercise)],
    }


def on_page(name):
    """The formulas on the page of a trace, and for each line the names that are marked in them."""
    text = trace_page(trace(name, *sample_inputs(name)))
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
    shown, (call, *_) = data["derivations"][name], data["trace"]["calls"]
    lines = [line for way in ("forward", "backward") for line in call[way]["lines"]]
    made = [[shown["letters"].get(each, each) for each in line["values"]] for line in lines]
    return [shown["title"], shown["forward"], shown["backward"], made]


if __name__ == "__main__":
    json.dump(readings(sys.argv[1]), sys.stdout, indent=0, ensure_ascii=False)
