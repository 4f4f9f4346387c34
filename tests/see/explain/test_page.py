"""docs/explain.md: its Python runs, and its commands are understood."""

import re
from pathlib import Path

from npformer.cli.main import main

PAGE = (Path(__file__).parents[3] / "docs" / "explain.md").read_text(encoding="utf-8")


def test_its_python_runs(capsys, tmp_path):
    mine, code = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(compile(code, "docs/explain.md", "exec"), {})
    assert capsys.readouterr().out.startswith("right ")
    (tmp_path / "mine.py").write_text(mine)
    assert main(["explain", str(tmp_path / "mine.py"), "--at", "norm1.gamma[2]"]) == 0, "as the page says"
