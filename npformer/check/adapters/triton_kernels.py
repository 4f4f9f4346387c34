"""Triton kernels in Triton's interpreter, which runs them in Python without a GPU (TRITON_INTERPRET=1).

In a check they compute in float64, as everything there does: ``tl.float32`` means ``tl.float64``. What a kernel reads
and writes lies within the arrays that it was given: the interpreter itself goes to any address. Nothing here imports
Triton; a kernel of the user's has done so.
"""

from __future__ import annotations

import ast
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import PurePath
from types import SimpleNamespace
from typing import Any

import numpy as np

from npformer.errors import ShapeError
from npformer.typing import Function

_INTERPRETER = "triton.runtime.interpreter"
#: The interpreter's accesses to memory, with the places of the addresses and of the mask among their arguments.
_ACCESSES = {
    "create_masked_load": (0, 1),
    "create_masked_store": (0, 2),
    "create_atomic_rmw": (1, 3),
    "create_atomic_cas": (0, None),
}
#: Kernels as they were rewritten for a check, beside the interpreter's own table of them.
_rewritten: dict[Any, Any] = {}


def kernel_of(function: Any) -> Any:
    """The interpreted kernel in an object of Triton's, such as one that chooses a configuration; None if none."""
    interpreter = sys.modules.get(_INTERPRETER)
    while interpreter is not None and type(function).__module__.startswith("triton."):
        if isinstance(function, interpreter.InterpretedFunction):
            return function if hasattr(function, "rewriter") else None
        function = getattr(function, "fn", None)
    return None


def python_of(kernel: Any) -> tuple[Any, Callable[[ast.Module], ast.Module]]:
    """The Python function that the interpreter runs for a kernel, and what it makes of the kernel's tree."""
    with interpreted():
        return kernel.rewrite(), kernel.rewriter.ast_transformer.visit


def data_of(x: Any) -> Any:
    """The numbers of a tensor in a kernel, or a whole number; None if it is none, or holds addresses."""
    data = getattr(getattr(x, "handle", None), "data", None)
    if not isinstance(data, np.ndarray) or not hasattr(x, "dtype") or x.dtype.is_ptr():
        return None
    if x.shape:
        return np.broadcast_to(data, [int(n) for n in x.shape])
    return data.reshape(()) if data.dtype.kind == "f" else data.item()


@contextmanager
def interpreted(in_float64: bool = True) -> Iterator[None]:
    """Within this context kernels compute in float64, and raise ShapeError for an address outside of their arrays."""
    interpreter: Any = sys.modules.get(_INTERPRETER)
    with ExitStack() as stack:
        if interpreter is not None:
            bounds = _Bounds()
            executor, builder = interpreter.GridExecutor, type(interpreter.interpreter_builder)
            stack.enter_context(_instead(executor, "_init_args_hst", bounds.noting(executor._init_args_hst)))
            for name, places in _ACCESSES.items():
                stack.enter_context(_instead(builder, name, bounds.within(getattr(builder, name), *places)))
            for owner, name, wide in _wide(interpreter) if in_float64 else ():
                stack.enter_context(_instead(owner, name, wide))
        yield


@contextmanager
def _instead(owner: Any, name: str, value: Any) -> Iterator[None]:
    is_own, before = name in vars(owner), getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before) if is_own else delattr(owner, name)


def _wide(interpreter: Any) -> Iterator[tuple[Any, str, Any]]:
    """(owner, name, value) of what makes the interpreter compute in float64: types, numbers and ratios of integers."""
    semantic, float64 = interpreter.interpreter_semantic, interpreter.tl.float64
    type_of, ratio, rewriter = semantic.to_tensor_type, semantic.truediv, interpreter.FunctionRewriter

    def of_any(a: Any, b: Any) -> Any:
        a, b = semantic.to_tensor(a), semantic.to_tensor(b)
        return ratio(semantic.cast(a, float64) if a.dtype.is_int() and b.dtype.is_int() else a, b)

    yield interpreter.InterpretedFunction, "rewritten_fn", _rewritten
    yield rewriter, "ast_transformer", _transformer(rewriter.ast_transformer.__class__)
    yield semantic, "to_tensor_type", lambda x: float64 if isinstance(x, float) else type_of(x)
    yield semantic, "truediv", of_any


@contextmanager
def patched_once() -> Iterator[None]:
    """Within this context the interpreter prepares Triton's language once, and not for each kernel and function."""
    interpreter: Any = sys.modules.get(_INTERPRETER)
    if interpreter is None:
        yield
        return
    patch, scopes = interpreter._patch_lang, dict[Any, Any]()

    def remembered(function: Any) -> Any:
        seen = {id(x) for x in function.__globals__.values()}
        languages = tuple(id(m) in seen for m in (interpreter.tl, interpreter.tl.core))
        if languages not in scopes:
            scopes[languages] = patch(function)
        return SimpleNamespace(restore=lambda: None)  # what is prepared stays so until the end of the check

    builder = interpreter.interpreter_builder
    fast = replace(builder.options, sanitize_overflow=False)
    with _instead(interpreter, "_patch_lang", remembered), _instead(builder, "options", fast):
        try:
            yield
        finally:
            for scope in reversed(scopes.values()):
                scope.restore()


@cache
def _transformer(transformer: Any) -> Any:
    """The interpreter's transformer of trees, with float64 for float32."""

    class Wide(transformer):  # type: ignore[misc]
        def visit_Attribute(self, node: ast.Attribute) -> Any:  # noqa: N802
            return self.generic_visit(ast.Attribute(node.value, node.attr.replace("float32", "float64"), node.ctx))

    return Wide()


class _Bounds:
    """The memory of the arrays that the kernel of this launch was given."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []

    def noting(self, init: Function) -> Function:
        def noted(executor: Any, *arguments: Any) -> Any:
            positional, named = placed = init(executor, *arguments)
            self._spans = list(_spans([*positional, *named.values()]))
            return placed

        return noted

    def within(self, access: Function, at: int, masked: int | None) -> Function:
        def checked(builder: Any, *arguments: Any, **more: Any) -> Any:
            pointers = arguments[at]
            mask = True if masked is None else arguments[masked].data
            first = pointers.data[np.broadcast_to(mask, pointers.data.shape)].astype(np.int64)
            size = max(pointers.get_element_ty().primitive_bitwidth // 8, 1)
            inside = np.zeros(first.shape, bool)
            for start, end in self._spans:
                inside |= (start <= first) & (first + size <= end)
            if not inside.all():
                raise ShapeError(self._message(int(first[~inside][0]), size))
            return access(builder, *arguments, **more)

        return checked

    def _message(self, address: int, size: int) -> str:
        far, where = min(
            (
                (address - end + size, "after the last") if address >= start else (start - address, "before the first")
                for start, end in self._spans
            ),
            default=(0, "beside the last"),
        )
        frame = next(f for f in reversed(traceback.extract_stack()) if not f.filename.startswith(_libraries()))
        return (
            f"{PurePath(frame.filename).name}, line {frame.lineno}, in {frame.name}: expected addresses within the "
            f"kernel's arrays, got one {far // size} {where} element of one; look at its mask and strides"
        )


def _libraries() -> tuple[str, ...]:
    """The folders of npformer and of Triton."""
    return str(PurePath(__file__).parents[2]), str(PurePath(sys.modules["triton"].__file__ or "").parent)


def _spans(arguments: list[Any]) -> Iterator[tuple[int, int]]:
    """(start, end) of the memory behind each tensor; those in tuples and in descriptors, too."""
    for x in arguments:
        if isinstance(x, tuple):
            yield from _spans(list(x))
        elif hasattr(x, "untyped_storage"):
            storage = x.untyped_storage()
            yield storage.data_ptr(), storage.data_ptr() + storage.nbytes()
        elif hasattr(x, "base"):
            yield from _spans([x.base])
