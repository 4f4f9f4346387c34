"""Triton kernels in the interpreter: verdicts, the line of a mistake, addresses, and the interpreter left as it was."""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

from npformer import from_torch, gradcheck
from npformer.check.adapters.triton_kernels import interpreted
from tests.markdown import text_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RNG = np.random.default_rng(0)
X, W, B = RNG.normal(size=(2, 3)), RNG.normal(size=3), RNG.normal(size=3)

os.environ.setdefault("TRITON_INTERPRET", "1")  # read when a kernel is made
pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'npformer[triton]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'npformer[triton]'")


@pytest.fixture
def example(tmp_path):
    """example(file, old, new): the module of an example in which this text, which occurs once, is another."""

    def load(file, old="", new=""):
        text = (EXAMPLES / file).read_text(encoding="utf-8")
        assert not old or text.count(old) == 1
        path = tmp_path / file
        path.write_text(text.replace(old, new) if old else text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def test_the_examples_are_right(example):
    example("triton_softmax.py").test_softmax()
    gradcheck(from_torch(example("triton_layer_norm.py").LayerNorm), X, W, B).raise_if_failed()


def test_an_address_outside_of_the_arrays(example):
    module = example("triton_softmax.py", "y * (dy - inner), mask=mask)", "y * (dy - inner))")
    report = gradcheck(from_torch(module.Softmax), X)
    assert not report.ok
    told = "\n".join(report.problems)
    assert "expected addresses within the kernel's arrays, got one" in told
    assert f"triton_softmax.py, line {line_of_store(module)}, in softmax_backward" in told


def line_of_store(module):
    source = Path(module.__file__).read_text(encoding="utf-8").splitlines()
    (line,) = (number for number, text in enumerate(source, 1) if "tl.store(dx_ptr" in text)
    return line


def test_the_line_of_a_mistake_and_the_interpreter_left_as_it_was(example):
    from triton.runtime import interpreter

    module = example("triton_softmax.py", "y * (dy - inner)", "y * (dy + inner)")
    owners = (interpreter, interpreter.GridExecutor, type(interpreter.interpreter_builder),
              interpreter.interpreter_semantic, interpreter.interpreter_builder, interpreter.FunctionRewriter,
              interpreter.InterpretedFunction)  # fmt: skip

    def state():  # without the place in the grid, which each launch leaves there
        return [{name: x for name, x in vars(owner).items() if "grid" not in name} for owner in owners]

    before = state()
    report = gradcheck(from_torch(module.Softmax), X)
    assert report.worst.cause == "sign"
    assert f"triton_softmax.py, line {line_of_store(module)}, in softmax_backward" in report.worst.diagnosis
    assert report.worst.diagnosis in " ".join(text_of("docs/check_your_own_kernel.md").split())
    assert state() == before
    with interpreted():
        assert state() != before
        assert "<a change" not in module.softmax_backward.rewrite().__code__.co_filename
