"""docs/adding-an-operation.md, followed in a copy: what it adds is taken up, and a step left out is noticed."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.markdown import ROOT, blocks, commands, text_of

TEXT = text_of("docs/adding-an-operation.md")
COPIED = ("npformer", "tests", "benchmarks", "docs", "setup.cfg", "pyproject.toml")


class Block(NamedTuple):
    kind: str  # "python": a whole file; "diff": changes of one
    file: str
    text: str


BLOCKS = [Block(*match) for match in blocks(r"(python|diff) (\S+)", TEXT)]


def changed(lines, diff):
    """The lines of a file after a diff that shows some of them, in their order."""
    rest = iter(lines)
    for mark, line in ((each[:1], each[1:]) for each in diff.splitlines()):
        if mark == "+":
            yield line
            continue
        for block in rest:
            if block == line:
                break
            yield block
        else:
            pytest.fail(f"the page shows a line that is not in the file, or not in this order: {line}")
        if mark == " ":
            yield line
    yield from rest


def follow(root, blocks):
    """Do in root what these blocks say."""
    for block in blocks:
        path = root / block.file
        if block.kind == "python":
            assert not path.exists(), block.file
            path.write_text(block.text, encoding="utf-8")
        else:
            lines = path.read_text(encoding="utf-8").splitlines()
            path.write_text("\n".join(changed(lines, block.text)) + "\n", encoding="utf-8")


def python(root, *arguments):
    """Python in root, where npformer is that of root."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True, timeout=600
    )


def run_tests(root, *arguments):
    return python(root, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--full", *arguments)


#: What mutation testing, the profile and the tables say of it.
MUTANTS = """
from npformer.backend import get_backend
from npformer.lab.mutation_testing import SURVIVED, judge, mutant_cases
backend = get_backend("numpy", dtype="float64", kernels="plain", threads=1)
outcomes = [judge(each, backend).outcome for each in mutant_cases() if each.op == "rms_norm"]
assert len(outcomes) >= 10 and SURVIVED not in outcomes, outcomes
assert backend.ops.rms_norm.forward.__name__ == "rms_norm_forward"
from npformer.backend.numpy.kernels import KERNELS
assert KERNELS.rms_norm.forward.__module__ == "npformer.backend.numpy.rms_norm"
"""
#: What else looks at every operation.
ELSEWHERE = (
    "tests/test_coverage.py::test_every_operation_is_in_it",
    "tests/test_imports.py::test_every_file_of_functional_is_named_in_its_table_of_contents",
    "tests/backend/test_ops.py::test_every_operation_of_functional_is_in_the_table_in_teaching_order",
    "tests/backend/test_ops.py::test_plain_kernels_run_the_text_of_functional",
    "tests/backend/test_fallback.py::test_for_everything_else_the_plain_pair_computes",
    "tests/backend/test_kernels.py::test_kernels_are_found_by_their_names",
    "tests/backend/test_kernels.py::test_rms_norm",
)


def test_the_page_makes_an_operation_that_everything_takes_up(tmp_path):
    for name in COPIED:  # with what Python has compiled: it need not do so again
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    follow(tmp_path, BLOCKS)
    home = python(tmp_path, "-c", "import npformer; print(npformer.__file__)")
    assert Path(home.stdout.strip()).is_relative_to(tmp_path), home.stderr
    for line in commands(TEXT):
        program, *words = shlex.split(line)
        if program == "npformer":
            outcome = python(tmp_path, "-m", "npformer", *words)  # it refuses a name that nothing has
        else:
            assert [program, *words[:2]] == ["python", "-m", "pytest"], line
            outcome = run_tests(tmp_path, *words[2:])
            assert " passed" in outcome.stdout
        assert outcome.returncode == 0, f"{line}\n{outcome.stdout}{outcome.stderr}"
    outcome = run_tests(tmp_path, *ELSEWHERE, "-k", "rms_norm or test_every or kernels_are_found")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    outcome = python(tmp_path, "-c", MUTANTS)
    assert outcome.returncode == 0, outcome.stderr
