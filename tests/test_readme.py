"""Every command and every snippet of the README: run, or at least understood by the parser."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npformer.cli.main import build_parser

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.S | re.M)


def run(snippet: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(snippet, "README.md", "exec"), names)
    return names


def test_the_first_two_shell_blocks_train_and_test() -> None:
    fenced = re.findall(r"^```(\w*)\n", README, re.M)
    first, second = blocks("sh")[:2]
    assert fenced[0] == "sh"
    assert first.splitlines()[0] == second.splitlines()[0] == "python3 -m venv .venv"
    assert first.strip().endswith("npformer train reverse")
    assert second.strip().endswith("-m pytest -n 2 --dist worksteal")


def alternatives(command: str) -> list[str]:
    """A command that says "copy|sort" stands for one with each."""
    choice = re.search(r"\w+(?:\|\w+)+", command)
    return [command.replace(choice[0], word) for word in choice[0].split("|")] if choice else [command]


def test_every_npformer_command_in_the_readme_is_understood() -> None:
    lines = re.findall(r"^(?:\.venv/bin/|try: )?(npformer (?!/).+?)(?:   .*)?$", "\n".join(blocks(r"\w+")), re.M)
    commands = [line for line in lines if not line.startswith("npformer/")]
    assert len(commands) >= 9
    each = [spelled for command in commands for spelled in alternatives(command)]
    assert len(each) > len(commands)
    for command in each:
        words = shlex.split(command)[1:]
        args, unknown = build_parser().parse_known_args(words)
        assert not unknown, command
        assert callable(args.run)


def test_the_python_example_learns_to_reverse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run(blocks("python")[1])
    assert float(names["loss"]) < 0.2
    decoded = names["npf"].greedy(names["model"], np.hstack([names["words"], names["end"]]), max_len=9)
    assert np.mean(np.all(decoded[:, :8] == names["words"][:, ::-1], axis=1)) > 0.8
    assert (tmp_path / "reverse.safetensors").is_file()


def test_the_taste_is_right_and_its_bug_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    taste = blocks("python")[0]
    run(taste)
    right = capsys.readouterr().out
    assert right.count("right") == 3
    assert "WRONG" not in right
    broken = taste.replace("- along_one - x_hat * along_x_hat", "- along_one")
    assert broken != taste
    run(broken)
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "WRONG" in rows["x"]
    assert "right" in rows["gamma"]
    assert "right" in rows["beta"]


def test_what_is_claimed_of_layout_exists() -> None:
    for name in re.findall(r"npformer/\w+", README):
        assert (ROOT / name).is_dir(), name
