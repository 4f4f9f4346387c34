"""The kernels of docs/judge.md are right as the page says, and its names are those of the code."""

import re

from npformer.check.kernels.files import tasks_of
from npformer.check.kernels.judging import VERDICTS, judged
from npformer.io.child_process import Limits
from tests.markdown import blocks, text_of

TEXT = text_of("docs/judge.md")
NAMES = ("rms_norm.py", "rms_norm--blocks.py", "softmax.py", "softmax--rows.py")


def test_its_kernels_are_right(tmp_path):
    for folder in ("kernels", "references"):
        (tmp_path / folder).mkdir()
    for name, text in zip(NAMES, blocks("python", TEXT), strict=True):
        assert TEXT.index(f"`{name}`") < TEXT.index(text)
        (tmp_path / ("kernels" if "--" in name else "references") / name).write_text(text)
    tasks = tasks_of([str(tmp_path / "kernels")], str(tmp_path / "references"), "bfloat16")
    for task in tasks:
        small = task.reference._replace(sizes=(1, 33))
        found = judged(task._replace(reference=small), Limits(seconds=600.0))
        assert (found["verdict"], found["causes"]) == ("right", [])
        assert {tried["regime"] for tried in found["regimes"]} > {"sizes", "zeros", "ties"}


def test_its_verdicts_are_the_judges():
    section = TEXT[TEXT.index("## Verdicts") : TEXT.index("Below a verdict")]
    assert tuple(re.findall(r"^\| `([\w ]+)`", section, re.M)) == VERDICTS
