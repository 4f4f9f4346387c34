"""Changes are made in NumPy's words; here they get those of PyTorch, JAX or Triton, for code that computes with these.

    np.exp(a)                        torch.exp(a)                  jnp.exp(a)     tl.exp(a)
    a.sum(axis=0, keepdims=True)     a.sum(dim=0, keepdim=True)    as it is       tl.sum(a, axis=0, keep_dims=True)
    a.mean(axis=-1, keepdims=True)   a.mean(dim=-1, keepdim=True)  as it is       tl.sum(a, axis=0) / N

A kernel's N is one of its whole numbers: each is tried. What Triton has no word for is not tried there.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npformer.check.causes.nodes import TreeEdit, parsed
from npformer.typing import Named

#: The modules that hold each library's functions of arrays.
_MODULES = {"torch": "torch", "jax": "jax.numpy", "triton": "triton.language"}
#: The functions that Triton has under NumPy's name; and those of arrays that it has under none.
_OF_TRITON = frozenset({"exp", "cos", "sin", "where", "abs", "sum", "max", "min", "sqrt", "log"})
_SIGN = "{0}.where({1} > 0, 1.0, -1.0)"
_ATTRIBUTES = frozenset({"T", "mT", "swapaxes", "shape", "size", "conj", "inv", "tril"})
#: The most lengths that are tried in a mean.
MOST_LENGTHS = 3
_DIM: Mapping[str | None, str] = {"axis": "dim", "keepdims": "keepdim"}


class Spelling:
    """A library's words, for a function that sees these names."""

    def __init__(self, library: str, names: Named, pool: Named) -> None:
        self._library, module = library, sys.modules.get(_MODULES.get(library, ""))
        self._module = next(
            (name for name, x in names.items() if x is module and module), f"__import__({library!r})"
        ) + (".numpy" if library == "jax" and all(x is not module for x in names.values()) else "")
        arrays = [v for v in pool.values() if isinstance(v, np.ndarray)]
        most = max((v.size for v in arrays), default=0)
        self._is_flat = all(v.ndim == 1 for v in arrays)
        whole = [text for text, v in pool.items() if type(v) is int and 1 < v <= most and text.isidentifier()]
        self._lengths: Sequence[str] = whole[:MOST_LENGTHS]

    def edits(self, edit: TreeEdit) -> Iterator[TreeEdit]:
        """The change in the library's words; none if it has none for it."""
        if self._library == "numpy":
            yield edit
            return
        node = edit.placed
        for length in self._lengths if self._library == "triton" and ".mean(" in ast.unparse(node) else ("",):
            with contextlib.suppress(_UnknownError):
                words = _Words(self._library, self._module, length, self._is_flat)
                yield edit._replace(node=words.visit(copy.deepcopy(node)))


class _UnknownError(Exception):
    """The library has no word for this."""


@dataclass
class _Words(ast.NodeTransformer):
    _library: str
    _module: str
    _length: str
    _is_flat: bool

    def visit_Call(self, node: ast.Call) -> Any:
        match node.func:
            case ast.Attribute(value, "sum" | "mean" as name):
                return self._reduced(node, value, name)
            case ast.Attribute(ast.Call(ast.Name("__import__")), name):
                return self._of_numpy(node, name)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if self._library == "triton" and node.attr in _ATTRIBUTES:
            raise _UnknownError
        if self._library == "torch" and node.attr == "size":
            return parsed(f"{ast.unparse(node.value)}.numel()")
        if isinstance(node.value, ast.Call) and ast.unparse(node.value) == "__import__('numpy')":
            return ast.Attribute(parsed(self._module), node.attr, node.ctx)
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if self._library == "triton" and isinstance(node.op, ast.MatMult | ast.Pow):
            raise _UnknownError
        return self.generic_visit(node)

    def _reduced(self, node: ast.Call, value: ast.expr, name: str) -> ast.AST:
        if self._library == "torch":
            node = ast.Call(node.func, node.args, [ast.keyword(_DIM.get(k.arg, k.arg), k.value) for k in node.keywords])
        if self._library != "triton":
            return self.generic_visit(node)
        if ast.unparse(value) == self._module:  # the user's own
            array, rest, words = node.args[0], node.args[1:], node.keywords
        else:
            array, rest, words = value, [], [k for k in node.keywords if k.arg == "axis" or not self._is_flat]
        words = [ast.keyword("keep_dims" if k.arg == "keepdims" else k.arg, k.value) for k in words]
        if self._is_flat and value is array:
            words = [ast.keyword("axis", ast.Constant(0))]
        total = ast.Call(parsed(f"{self._module}.sum"), [self.visit(array), *rest], words)
        return ast.BinOp(total, ast.Div(), parsed(self._length)) if name == "mean" else total

    def _of_numpy(self, node: ast.Call, name: str) -> Any:
        arguments = [self.visit(argument) for argument in node.args]
        if self._library == "triton" and name == "sign":
            return parsed(_SIGN.format(self._module, ast.unparse(arguments[0])))
        if self._library == "triton" and name not in _OF_TRITON:
            raise _UnknownError
        return ast.Call(ast.Attribute(parsed(self._module), name, ast.Load()), arguments, node.keywords)
