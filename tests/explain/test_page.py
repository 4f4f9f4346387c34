"""docs/explain.md: its Python runs, and its commands are understood."""

import re
import shlex
from pathlib import Path

import pytest

from npformer.cli.main import build_parser, main

PAGE = (Path(__file__).parents[2] / "docs" / "explain.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"npformer (explain [^`\n]*?)(?:`|\n|   )", PAGE)))


def test_its_python_runs(capsys, tmp_path):
    mine, code = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(compile(code, "docs/explain.md", "exec"), {})
    assert capsys.readouterr().out.startswith("right ")
    (tmp_path / "mine.py").write_text(mine)
    assert main(["explain", str(tmp_path / "mine.py"), "--at", "norm1.gamma[2]"]) == 0, "as the page says"


@pytest.mark.parametrize("command", COMMANDS)
def test_its_commands_are_understood(command):
    args = build_parser().parse_args(shlex.split(command))
    assert args.command == "explain"


def test_it_explains_every_section():
    for section in ("what", "terms", "why", "paths", "tokens", "means", "next"):
        assert f"**{section}" in PAGE
