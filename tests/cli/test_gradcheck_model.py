"""npformer gradcheck of a user's own model: --model, --bisect, --sweep."""

import inspect
from pathlib import Path

import pytest

from npformer.backend import get_backend
from tests.check.small_models import NoSkip

GOOD = """
import numpy as np
import npformer as npf
from npformer.layers import EncoderLayer

backend = npf.get_backend("numpy", kernels="numpy")
X, KEY = np.random.default_rng(0).normal(size=(2, 3, 4)), npf.RandomKey(seed=0, step=0)

class Sharp:
    def forward(self, x):
        return np.abs(x), np.sign(x.real)
    def backward(self, dy, sign):
        return dy * sign

def build():
    return EncoderLayer(4, 2, 6, dropout=0.1, backend=backend), (X,), {"context": npf.layers.Context(key=KEY)}

def bad():
    return NoSkip(4, 2, 6, backend=backend), (X,)

def sharp():
    return Sharp(), (X,), {"complex_step": False}

def wrong_pair():
    return (lambda x: (2 * x, None), lambda dy, _: 3 * dy), (X,)

""" + inspect.getsource(NoSkip)

#: The backend in that file; a check computes in float64, whatever the model's dtype.
BACKEND = get_backend("numpy", dtype="float64", kernels="numpy")


@pytest.fixture(autouse=True)
def mine(cli):
    """A file in the folder where commands run."""
    Path("mine.py").write_text(GOOD)


def test_a_right_model(cli):
    done = cli("gradcheck --model mine.py").quiet()
    assert done.lines[2] == "EncoderLayer"
    assert done.out.startswith(f"gradients with {BACKEND}, against")
    done.says("norm2.gamma", "all 17 gradients of 1 check are right")
    document = cli("gradcheck --model mine.py --json").document
    assert document["ok"]
    assert [check["name"] for check in document["checks"]] == ["EncoderLayer"]
    assert "path" not in document["checks"][0]
    assert document["backend"] == str(BACKEND)


def test_the_backend_is_the_models_own(cli):
    """--kernels and --device would have no effect on it, so they are refused."""
    for command in ("gradcheck", "certify"):
        for option in ("--kernels", "--device"):
            cli(f"{command} --model mine.py {option} numpy").refused(
                f"{option}: expected no --model beside it, since a model has a backend of its own"
            )
    done = cli("gradcheck --model mine.py:wrong_pair")
    assert done.out.startswith("gradients of your functions, against")
    assert cli("gradcheck --model mine.py:wrong_pair --json").document["backend"] is None


def test_a_wrong_model_and_why(cli):
    done = cli("gradcheck --model mine.py:bad")
    assert (done.code, done.err) == (1, "")
    assert "missing term: mine.py, line " in " ".join(done.out.split())
    assert "gradients are not right" in done.out
    assert "first wrong part" not in done.out


def test_bisect(cli):
    done = cli("gradcheck --model mine.py:bad --bisect --json")
    assert (done.code, done.document["checks"][0]["path"]) == (1, ["NoSkip"])
    assert any("missing term" in tensor["diagnosis"] for tensor in done.document["checks"][0]["tensors"])


def test_bisect_of_a_right_target_or_one_without_parts(cli):
    done = cli("gradcheck --model mine.py --bisect").fine()
    assert "wrong part" not in done.out
    done = cli("gradcheck --model mine.py:wrong_pair --bisect")
    assert done.code == 1
    assert "(no parts to look into: the target is no npformer.layers.Layer, nor derived from it)" in done.out


def test_sweep(cli):
    for name in ("build", "wrong_pair"):
        cli(f"gradcheck --model mine.py:{name} --sweep {name}.svg")
        assert Path(f"{name}.svg").read_bytes().startswith(b"<svg ")
    cli("gradcheck --only softmax --sweep v.svg").fine()
    assert Path("v.svg").exists()


def test_the_pictures_path_is_checked_before_the_gradients(cli, monkeypatch):
    monkeypatch.setattr("npformer.cli.gradcheck.user_case", lambda spec: pytest.fail("too early"))
    Path("notes.svg").write_text("mine")
    cli("gradcheck --model mine.py --sweep notes.svg").refused("expected a free name")
    assert Path("notes.svg").read_text() == "mine"


def test_options_of_the_check_are_passed_through(cli):
    cli("gradcheck --model mine.py:sharp").fine()


def test_bad_input_is_refused(cli):
    cli("gradcheck --model none.py").refused("expected a Python file", "got 'none.py'")
    cli("gradcheck --model mine.py:none").refused("expected none, a function that returns", "no such function")
    cli("gradcheck --model mine.py --only relu").refused("--only: expected no --model beside it", "'relu'")
    cli("gradcheck --model mine.py --dtype float32").refused("--dtype float32: expected no --model")
    Path("broken.py").write_text("def build():\n    return nothing\n")
    cli("gradcheck --model broken.py").refused("broken.py, line 2: expected a file that runs", "NameError")


def test_a_file_goes_after_model(cli):
    for file in ("mine.py", "mine.py:bad"):
        cli(f"gradcheck {file}").refused(
            f"unknown argument '{file}': a word too many; a file of your own goes after --model: --model {file}"
        )


OFF_BELOW = """
import numpy as np

def build():
    def forward(x):
        return x * x, x

    def backward(dy, x):
        return np.where(x < -50, 0, 2 * dy * x)

    return (forward, backward), (np.random.default_rng(0).normal(size=(3, 4)),)
"""


def test_regimes(cli):
    Path("mine.py").write_text(OFF_BELOW)
    cli("gradcheck --model mine.py").quiet()
    cli("gradcheck --model mine.py --regimes ties,zeros").quiet()
    done = cli("gradcheck --model mine.py --regimes all")
    assert done.code == 1
    assert "  saturated below  2 WRONG: x, x" in done.lines
    assert "  forward: in saturated below, x" in done.lines
    found = cli("gradcheck --model mine.py --regimes", "saturated below", "--json")
    assert (found.code, found.document["ok"]) == (1, False)
    assert found.document["checks"][0]["regimes"][0]["verdict"] == "WRONG"
    cli("gradcheck --model mine.py --regimes tie").refused("regimes: expected all, scores", "got 'tie'")


def test_regimes_need_float64(cli):
    cli("gradcheck --only linear --dtype float32 --regimes all").refused("--dtype float32: expected no --regimes")
