"""The complete list: each case with its file, its inputs and its mistakes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.foreign.pair import Edit, normal, normals
from benchmarks.sources import framework_mutants as others
from benchmarks.sources import triton_mutants as mistakes

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """A backward: its framework, file and name, inputs for gradcheck, and its mistakes."""

    framework: str
    file: str
    name: str
    inputs: tuple[Any, ...]
    edits: tuple[Edit, ...]
    constant: tuple[str, ...] = ()

    def text(self, edit=None):
        """The file's text, with a mistake. Raises ValueError unless the text that it changes occurs exactly once."""
        text = (HERE / self.file).read_text(encoding="utf-8")
        if edit is None:
            return text
        if text.count(edit.old) != 1:
            raise ValueError(
                f"{self.name}: expected {edit.old!r} once in {self.file}, got it {text.count(edit.old)} times"
            )
        return text.replace(edit.old, edit.new)

    def line(self, edit):
        """The line of the file with the mistake on which it is: the first that is another, or that lacks one before."""
        before, after = self.text().splitlines(), self.text(edit).splitlines()
        return next(i for i, (old, new) in enumerate(zip(before, after, strict=False), 1) if old != new)


def _rows(name, edits, inputs, **more):
    return Case("triton", "triton_rows.py", name, inputs, edits, **more)


def _elements(name, edits, inputs, **more):
    return Case("triton", "triton_elements.py", name, inputs, edits, **more)


def _losses(name, edits, inputs, **more):
    return Case("triton", "triton_losses.py", name, inputs, edits, **more)


_LABELS, _IDS = np.array([1, 4, -100, 0]), np.array([[1, 3, 1], [0, 2, 3]])

TRITON = (
    _rows("Softmax", mistakes.SOFTMAX, normals(1, (3, 5))),
    _rows("LayerNorm", mistakes.LAYER_NORM, normals(2, (3, 5), (5,), (5,))),
    _rows("RMSNorm", mistakes.RMS_NORM, normals(5, (3, 5), (5,))),
    _rows("L2Norm", mistakes.L2_NORM, normals(7, (3, 5))),
    _elements("Gelu", mistakes.GELU, normals(8, (2, 5))),
    _elements("SwiGLU", mistakes.SWIGLU, normals(9, (3, 5), (3, 5))),
    _elements("TanhGate", mistakes.TANH_GATE, normals(11, (2, 5), (2, 5), (1,))),
    _elements("Rotation", mistakes.ROTATION, normals(14, (3, 6), (3, 3), (3, 3)), constant=("cos", "sin")),
    _losses("Huber", mistakes.HUBER, (*normals(17, (3, 5), (3, 5)), 0.8)),
    _losses("CrossEntropy", mistakes.CROSS_ENTROPY, (normal(19, 4, 6), _LABELS, -100)),
)

_TORCH_INPUTS = {
    "LayerNorm": normals(20, (2, 3, 4), (4,), (4,)),
    "Softmax": (normal(23, 3, 4), -1),
    "Linear": normals(24, (3, 4), (5, 4), (5,)),
    "Gelu": normals(27, (3, 4)),
    "Attention": normals(28, (2, 3, 4), (2, 5, 4), (2, 5, 3)),
    "Embedding": (normal(31, 5, 4), _IDS, 0),
    "LeakyReLU": (normal(32, 3, 4), 0.1),
    "CrossEntropy": (normal(33, 4, 6), np.array([1, 4, 2, 0])),
}
TORCH = tuple(
    Case("torch", "torch_functions.py", name, _TORCH_INPUTS[name], edits) for name, edits in others.TORCH.items()
)

_JAX_INPUTS = {
    "layer_norm": normals(40, (2, 3, 4), (4,), (4,)),
    "softmax": normals(43, (3, 4)),
    "rms_norm": normals(44, (3, 4), (4,)),
    "attention": normals(46, (3, 4), (5, 4), (5, 3)),
    "swish": (normal(49, 3, 4), np.float64(1.3)),
}
JAX = tuple(Case("jax", "jax_rules.py", name, _JAX_INPUTS[name], edits) for name, edits in others.JAX.items())

CASES = (*TRITON, *JAX, *TORCH)
