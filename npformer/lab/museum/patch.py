"""Puts a bug into the running program, everywhere at once, and removes it again.

A function is bound in many places: its module, every module that imported it by name, a class, the table
of operations, inside a ``partial`` or another function's closure. So its *code* is replaced, not its name:
the function object stays the same, and every caller runs the changed code. Removing the
bug restores the same code object. The change affects the whole process, so there may be one patch at a time, and
no work in other threads.
"""

from __future__ import annotations
import __future__

import ast
import importlib
import inspect
import itertools
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from npformer.backend import Backend, get_backend
from npformer.check.checkable import listed
from npformer.errors import ConfigError
from npformer.lab.mistake import Edit, EditError, replaced

_numbers = itertools.count()


class PatchError(ConfigError):
    """An edit no longer fits the code: the code has changed, so the bug must be updated."""


@contextmanager
def patched(edits: Iterable[Edit], dtype: str = "float64") -> Iterator[Backend]:
    """While in the context, the edits are in force; yields NumPy's backend, whose operations have them.

    Raises PatchError if a target does not exist or does not contain the text exactly once; then nothing is changed.
    """
    changed = [(function_at(target), _compiled(target, group)) for target, group in _by_target(edits).items()]
    with _exchanged(changed):
        yield get_backend("numpy", dtype=dtype, kernels="plain", threads=1)


@contextmanager
def noted(targets: Iterable[str]) -> Iterator[set[str]]:
    """While in the context, each of these functions adds its target to the yielded set when it runs.

    An inserted first line does that. It costs almost no time, whereas a tracer triples the time of all functions.
    """
    _ran.clear()
    note = "from npformer.lab.museum.patch import _ran as _ran_; _ran_.add({!r})"
    with _exchanged([(function_at(target), _compiled(target, [], note.format(target))) for target in targets]):
        yield _ran


_ran: set[str] = set()


@contextmanager
def _exchanged(changed: list[tuple[FunctionType, FunctionType]]) -> Iterator[None]:
    """While in the context, the first of each two functions runs the code of the second."""
    before = [(f, f.__code__, f.__defaults__, f.__kwdefaults__, dict(vars(f))) for f, _ in changed]
    try:
        for function, new in changed:
            function.__code__ = new.__code__
            function.__defaults__, function.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
        yield
    finally:
        for function, code, defaults, keyword_defaults, attributes in before:
            function.__code__ = code
            function.__defaults__, function.__kwdefaults__ = defaults, keyword_defaults
            vars(function).clear()  # a bug may have stored something there
            vars(function).update(attributes)


def changed_functions(edits: Iterable[Edit]) -> list[FunctionType]:
    """The edited functions as separate functions, which call the unchanged program; nothing is replaced."""
    return [_compiled(target, group) for target, group in _by_target(edits).items()]


def function_at(target: str) -> FunctionType:
    """The function that "module:name" or "module:Class.method" names. Raises PatchError if there is none."""
    module_name, _, path = target.partition(":")
    try:
        thing: Any = importlib.import_module(module_name)
        for name in path.split("."):
            thing = vars(thing)[name]  # not getattr, which would look a method up and bind it
    except (ImportError, KeyError) as error:
        raise PatchError(f"{target}: expected the name of a function, found none ({error}); was it renamed?") from error
    if isinstance(thing, property):
        thing = thing.fget
    if not isinstance(thing, FunctionType):
        raise PatchError(f"{target}: expected a function, got {type(thing).__name__}; choose one inside it")
    return thing


def edited_sources(edits: Iterable[Edit]) -> dict[str, tuple[str, str]]:
    """Target -> its source, and the edited source. Raises PatchError if an edit does not fit."""
    return {target: _edited(target, group) for target, group in _by_target(edits).items()}


def _by_target(edits: Iterable[Edit]) -> dict[str, list[Edit]]:
    edits = list(edits)
    return {edit.where: [other for other in edits if other.where == edit.where] for edit in edits}


def _edited(target: str, edits: list[Edit]) -> tuple[str, str]:
    """The source of a function, and the edited source."""
    function = function_at(target)
    before = source = textwrap.dedent(inspect.getsource(function))
    for edit in edits:
        try:
            source = replaced(source, edit.old, edit.new)
        except EditError as error:
            raise PatchError(f"{target}: {error}\nthe function was changed: bring the bug up to date") from None
    return before, source


def _compiled(target: str, edits: list[Edit], first: str = "") -> FunctionType:
    """The edited function, with ``first`` as its first line, compiled in the namespace of its module."""
    original = function_at(target)
    source = _edited(target, edits)[1]
    file = listed(source, f"<museum {next(_numbers)}: {target}>")
    tree = ast.parse(source)
    definition: Any = tree.body[0]
    definition.body[:0] = ast.parse(first).body
    definition.decorator_list = []  # only the code is used; decorators of the original remain
    names = dict(original.__globals__)
    exec(compile(tree, file, "exec", __future__.annotations.compiler_flag, dont_inherit=True), names)
    new: FunctionType = names[definition.name]
    if new.__code__.co_freevars != original.__code__.co_freevars:
        raise PatchError(f"{target}: expected a function without a closure; it uses super() or is nested")
    return new
