"""What a solution may not do ends its process at once, whatever it has changed or catches."""

import textwrap
from pathlib import Path

import pytest

import npformer
from npformer.errors import DataError
from npformer.lab.grader import grade, runner
from tests.lab.learner import FILES, each, graded

PACKAGE = Path(npformer.__file__).resolve().parent
RELU = """import numpy as np
def relu_forward(x): return np.where(x > 0, x, 0.0), x > 0
def relu_backward(dy, cache):
    act()
    return np.where(cache, dy, 0.0)
"""


def acting(folder, act):
    """The grade of a right solution whose backward begins with these statements."""
    return graded(folder, f"{RELU}def act():\n{textwrap.indent(act, '    ')}\n")


#: Ways to the object that refuses, or round it; each is to end before the file is gone.
WAYS_ROUND = {
    "an object that gc finds": (
        "import gc\nfor x in gc.get_objects():\n"
        "    if type(x).__name__ == 'Reporter': x.refuse = x.say = lambda *a, **k: None"
    ),
    "the fence's own module": "import fence, sys\nfor n in ('Reporter',): getattr(fence, n).refuse = lambda *a: None",
    "the module that runs it": "import __main__\n__main__.Reporter.refuse = lambda *a: None",
    "the frame that called": (
        "import sys\nf = sys._getframe()\nwhile f:\n    r = f.f_locals.get('reporter')\n"
        "    if r is not None: r.refuse = lambda *a: None\n    f = f.f_back"
    ),
    "the frame of an error": (
        "try: 1 / 0\nexcept ArithmeticError as e:\n    f = e.__traceback__.tb_frame\n    while f:\n"
        "        r = f.f_locals.get('reporter')\n        if r is not None: r.refuse = lambda *a: None\n"
        "        f = f.f_back"
    ),
    "where warnings go": "import warnings\nwarnings.showwarning.__self__.refuse = lambda *a: None",
    "what finds modules": "import sys\nsys.meta_path[0]._reporter.refuse = lambda *a: None",
}


@each("way", WAYS_ROUND)
def test_there_is_no_object_to_change_and_so_be_let_through(tmp_path, way):
    precious = tmp_path / "precious.txt"
    precious.write_text("data")
    hushed = f"try:\n{textwrap.indent(way, '    ')}\nexcept Exception: pass"
    with pytest.raises(DataError, match=r"mine\.py: it "):
        acting(tmp_path, f"{hushed}\nimport os\nos.remove({str(precious)!r})")
    assert precious.read_text() == "data"


def test_nothing_runs_after_a_refusal(tmp_path, monkeypatch):
    runs = []
    monkeypatch.setattr(grade, "run", lambda *given, **named: runs.append(runner.run(*given, **named)) or runs[-1])
    with pytest.raises(DataError, match=r"changes files \(os.mkdir\)"):
        acting(tmp_path, "import os\ntry: os.mkdir('new')\nexcept BaseException: pass\nprint('here')")
    assert [bool(run.refused) for run in runs] == [True]
    assert runs[0].printed == ""


@each(("act", "words"), FILES["closed"])
def test_what_is_closed_is_refused(tmp_path, act, words):
    (tmp_path / "link").symlink_to(PACKAGE)
    with pytest.raises(DataError) as refused:
        acting(tmp_path, act.format(beside=PACKAGE.parent, answer="lab/grader/parts.py"))
    assert words in str(refused.value)
    assert RELU in (tmp_path / "mine.py").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "mine.py"]


@pytest.mark.parametrize(
    "act",
    [
        "import collections, dataclasses, enum\ncollections.namedtuple('A', 'x')\n"
        "dataclasses.make_dataclass('B', ['x'])\nenum.Enum('C', 'x')",
        "import traceback\ntry: 1 / 0\nexcept ArithmeticError: traceback.print_exc()",
        "import logging, gc\nlogging.getLogger('mine').warning('here')\ngc.collect()",
        "import os\nos.listdir('.')\nopen('mine.py').read()",
        "import numpy.testing\nnumpy.testing.assert_allclose(1.0, 1.0)\nnumpy.ones(2).ctypes.data",
    ],
    ids=["named tuples", "tracebacks", "logging", "own files", "numpy.testing"],
)
def test_what_does_no_harm_is_let_through(tmp_path, act):
    assert acting(tmp_path, act).ok
