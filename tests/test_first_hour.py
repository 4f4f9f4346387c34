"""docs/first-hour.md: its commands run in their order, at a small size, and print what the page shows."""

import os
import re
import shlex
import signal
import subprocess
from typing import NamedTuple

import pytest

from npformer.cli import museum
from npformer.cli.main import main
from npformer.lab.museum import demonstration, detections
from npformer.lab.museum.bugs import BUGS
from npformer.lab.museum.checks import all_checks
from npformer.lab.museum.detections import prepare
from npformer.training.progress import Progress
from tests.markdown import blocks, text_of

PAGE, README = map(text_of, ("docs/first-hour.md", "README.md"))
SMALL = {"device": "numpy", "kernels": "numpy", "batch_size": 4, "d_model": 8, "d_ff": 8, "num_heads": 2, "steps": 8,
         "eval_examples": 2, "final_examples": 6}  # fmt: skip

CHECKS = ("gradient of softmax", "identity: softmax-rows")  # all of them would take minutes
INTERRUPTED = "train sort"


class Said(NamedTuple):
    """A command of the page and its outcome."""

    command: str
    code: int
    text: str


def made_small(words):
    """The words of a command, with options that make it quick."""
    if words[0] == "decode":
        return words if "--max-len" not in words else [*words, "--max-len", "5"]
    if words[0] != "train":
        return words
    if "--resume" in words:
        return [re.sub(r"^steps=\d+$", f"steps={2 * SMALL['steps']}", word) for word in words]
    options = SMALL | ({"max_length": 16, "num_layers": 1} if words[1] == "lm" else {})
    return [*words, *(word for name, value in options.items() for word in ("--set", f"{name}={value}"))]


@pytest.fixture
def hour(tmp_path, monkeypatch, capsys, usual_signals):
    """The commands of the page, typed one after the other in an empty folder, and what they said."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(PAGE, encoding="utf-8")
    chosen = prepare(tuple(check for check in all_checks() if check.name in CHECKS), BUGS)
    monkeypatch.setattr(detections, "prepared", lambda: chosen)
    monkeypatch.setattr(museum, "compare", lambda one: demonstration.compare(one, steps=3), raising=False)
    said = []
    for language, block in blocks(r"(\w+)", PAGE)[1:]:
        if language == "python":
            write_backward(tmp_path / "softmax.py", block)
        elif language == "sh":
            said += [typed(line, monkeypatch, capsys) for line in block.splitlines()]
        else:
            assert block in said[-1].text, said[-1]
    return tmp_path, said


def write_backward(path, body):
    """Replace the body of softmax_backward below its docstring."""
    head, docstring, _ = path.read_text(encoding="utf-8").rpartition('Returns dx (..., S)."""\n')
    path.write_text(head + docstring + body, encoding="utf-8")


def typed(line, monkeypatch, capsys):
    program, *words = shlex.split(line)
    if program != "npformer":
        subprocess.run(line, shell=True, check=True)
        return Said(line, 0, "")
    capsys.readouterr()
    with monkeypatch.context() as patch:
        if " ".join(words) == INTERRUPTED:
            patch.setattr(Progress, "advance", interrupted_at(3))
        code = main(made_small(words))
    return Said(line, code, "".join(capsys.readouterr()))


def interrupted_at(step):
    """Progress.advance, but for a Ctrl-C in that step."""
    made = iter(range(1, 100))
    return lambda self: signal.raise_signal(signal.SIGINT) if next(made) == step else None


def test_the_first_hour(hour):
    folder, said = hour
    codes = {one.command: one.code for one in said}
    assert [one.code for one in said if one.command == "npformer grade softmax.py"] == [1, 0], "wrong, then right"
    assert codes.pop("npformer " + INTERRUPTED) == 130
    assert set(codes.values()) == {0}
    texts = {one.command.partition(" --set")[0]: one.text for one in said}
    assert "npformer train --resume runs/sort-001" in texts["npformer " + INTERRUPTED]
    assert "steps 3 to 8" in texts["npformer train --resume runs/sort-001"]
    extended = texts["npformer train --resume runs/reverse-001"]
    assert "steps 8 to 16" in extended
    assert "note: the run goes on to step 16 instead of 8; the schedule warmup_cosine changes with it" in extended
    continued = next(one.text for one in said if one.command.startswith("npformer decode runs/lm-001"))
    assert continued.startswith("The gradient of")
    assert {"curves.png", "attention.png", "config.toml"} <= set(os.listdir(folder / "runs" / "reverse-001"))


def test_it_begins_as_the_readme_does():
    install = blocks("sh", PAGE)[0].splitlines()
    assert install[:2] == blocks("sh", README)[0].splitlines()[:2]
    assert install[2:] == ["source .venv/bin/activate"]


def test_more_steps_are_twice_the_default():
    from npformer.training.option_table import defaults_of

    steps = re.findall(r"--resume runs/reverse-001 --set steps=(\d+)", PAGE)
    assert steps == [str(2 * defaults_of("reverse").training.steps)]
