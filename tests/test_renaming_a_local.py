"""Another name for a variable of an operation is a change of one file: everything that reads the file still works."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from npformer.lab.quote import renamed, variables

ROOT = Path(__file__).parents[1]
#: File -> the name that is always tried; --full tries all.
FILES = {"layer_norm": "x_hat", "softmax": "shared", "attention": "dropped"}


def text_of(file):
    return (ROOT / "npformer" / "functional" / f"{file}.py").read_text(encoding="utf-8")


def pytest_generate_tests(metafunc):
    if "local" in metafunc.fixturenames:
        every = [(file, name) for file in FILES for name in locals_of(file)]
        metafunc.parametrize(("file", "local"), every if metafunc.config.getoption("full") else FILES.items())


def locals_of(file):
    """The variables of a file's functions. A gradient is renamed with what it is the gradient of."""
    functions = [node for node in ast.parse(text_of(file)).body if isinstance(node, ast.FunctionDef)]
    names = set().union(*map(variables, functions))
    return sorted(names - {f"d{name}" for name in names})


def with_another_name(text, old, new):
    """The file with another name for a variable and its gradient: in its code, and in its docstring's list of names."""
    names = {old: new, f"d{old}": f"d{new}"}
    lines = text.splitlines(keepends=True)
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.Assign):
            span = slice(node.lineno - 1, node.end_lineno)
            code = renamed("".join(lines[span]), names)
            if isinstance(node, ast.Assign):
                code = re.sub(r'"[^"]*"', lambda found: re.sub(rf"\b{old}\b", new, found[0]), code)
            lines[span] = code.splitlines(keepends=True)
    text, listed = re.subn(rf"^(Names in the code: .* is ){old}\b", rf"\g<1>{new}", "".join(lines), flags=re.M)
    if not listed:
        text, listed = re.subn(r"^(Names in the code: .*)\.$", rf"\g<1>, {old} is {new}.", text, flags=re.M)
    return text if listed else text.replace('\n"""\n\n', f'\nNames in the code: {old} is {new}.\n"""\n', 1)


def readers_say(file, old, new, folder):
    """The lines that all readers say in a copy of the package, with the old name again."""
    shutil.copytree(ROOT / "npformer", folder / "npformer", ignore=shutil.ignore_patterns("__pycache__"))
    for beside in ("benchmarks", "docs", "tests"):
        (folder / beside).symlink_to(ROOT / beside)
    path = folder / "npformer" / "functional" / f"{file}.py"
    path.write_text(with_another_name(text_of(file), old, new), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "tests.renamed_readers", file]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return [line.replace(new, old) for line in done.stdout.replace("\\", "").splitlines()]


def test_every_reader_of_a_file_says_the_same_with_another_name(file, local, tmp_path):
    new = re.sub("[^_]", "ø", local)  # as long, so that lines break where they did
    assert with_another_name(text_of(file), local, new).count(new) >= 2
    assert readers_say(file, local, new, tmp_path / "new") == readers_say(file, local, local, tmp_path / "old")
