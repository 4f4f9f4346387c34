"""The sample keeps what it promises, says so, is the same in every process; the quick look compiles nothing."""

import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

from tests.sampling import sample, values_of

ROOT = Path(__file__).parents[1]
SAID = "a sample of the cases; all: python -m pytest --full\n"


def run(*words, seed="0"):
    """What pytest says, in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": seed})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_value_of_every_parameter_is_kept():
    axes = {"kernels": ["plain", "numpy", "numba"], "shape": [(1, 1), (2, 3), (5, 7), (4, 9)], "dtype": ["f", "d"]}
    cases = {str(x): values_of(dict(zip(axes, x, strict=True))) for x in product(*axes.values())}
    kept = sample(cases)
    assert frozenset().union(*(cases[name] for name in kept)) == frozenset().union(*cases.values())
    assert len(kept) == 4
    assert sample(dict(reversed(cases.items()))) == kept, "the order in which cases come plays a part"


def test_each_function_has_a_case_for_each_table_of_kernels():
    """Of those collected here; and what needs a GPU is there as a whole."""
    output = run("--collect-only", "--full", "tests/test_contract.py", "tests/backend/test_rows_of_a_batch.py")
    kept = run("--collect-only", "tests/test_contract.py", "tests/backend/test_rows_of_a_batch.py")
    tables = []
    for text in (output, kept):
        names = re.findall(r"^(\S+?)\[(.*)\]$", text, re.M)
        tables.append({(name, word) for name, case in names for word in re.findall(r"\b(plain|numpy|numba)\b", case)})
    assert tables[0] == tables[1]
    assert len(tables[0]) > 15
    functions = [set(re.findall(r"^(\S+::\w+)", text, re.M)) for text in (output, kept)]
    assert functions[0] == functions[1]
    assert kept.count("::") < output.count("::") / 3


def test_the_sample_is_said_and_the_same_in_every_process():
    files = "tests/optim", "tests/layers/test_recompute.py"
    first, second = (run("--collect-only", *files, seed=seed) for seed in ("1", "2"))
    assert first.count("::") == second.count("::") > 50
    assert re.findall(r"^\S+::.*$", first, re.M) == re.findall(r"^\S+::.*$", second, re.M)
    everything = run("--collect-only", "--full", *files)
    assert first.count("::") < everything.count("::")
    assert (SAID in first, SAID in everything) == (True, False)
    named = run("--collect-only", "tests/layers/test_recompute.py::test_inference_is_not_affected")
    assert SAID not in named, "who names a test gets all its cases"


def test_the_quick_look_compiles_nothing():
    """Numba cannot be imported in it, and kernels are NumPy's unless named."""
    code = (
        "import sys\n"
        "from types import SimpleNamespace\n"
        "from tests.tiers import pytest_configure\n"
        "pytest_configure(SimpleNamespace(getoption=lambda name: 'smoke'))\n"
        "import npformer as npf\n"
        "assert npf.get_backend('numpy').kernels == 'numpy'\n"
        "assert sys.modules['numba'] is None\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
