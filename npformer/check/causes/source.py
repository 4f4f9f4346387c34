"""A backward's source and its values in a run, the material for changes."""

from __future__ import annotations

import ast
import copy
import inspect
import math
import sysconfig
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from npformer.check.adapters.triton_kernels import kernel_of, python_of
from npformer.check.causes.nodes import TreeEdit, is_mask, located
from npformer.check.checkable import as_numpy, tree_of, unwrapped

#: The most values for changes, if there are not more names.
MOST_POOL, MOST_NAMES = 32, 64
#: Names of endless iterators.
ENDLESS = frozenset({"count", "cycle", "iter"})
_TRANSPOSED = ".swapaxes(-1, -2)"
#: The name of a lambda that was made a function.
LAMBDA = "_lambda_"
_OUTER, _NO_ARGUMENTS = "_outer_", ast.arguments([], [], None, [], [], None, [])


class Source(NamedTuple):
    """A function with the tree that it was parsed to, and the names that it sees."""

    function: FunctionType
    tree: ast.Module  # a function that has its free variables, and in it the definition
    definition: ast.FunctionDef
    first: int  # line of its file
    names: dict[str, Any]
    rewritten: Callable[[ast.Module], ast.Module] | None = None  # what Triton's interpreter makes of a tree

    def code(self) -> CodeType:
        """The code of the definition as it is now, for the function, which keeps its defaults and variables."""
        names: list[ast.expr] = [ast.Name(name, ast.Load()) for name in self.function.__code__.co_freevars]
        all_free = ast.Expr(ast.Lambda(_NO_ARGUMENTS, ast.Tuple(names, ast.Load())))  # though a change may use none
        self.definition.body.insert(0, all_free)
        try:
            tree = self.rewritten(copy.deepcopy(self.tree)) if self.rewritten else self.tree
            module = compile(ast.fix_missing_locations(tree), "<a change of backward>", "exec")
        finally:
            self.definition.body.remove(all_free)
        outer = _code_in(module, _OUTER)
        return _code_in(outer, self.definition.name)

    @contextmanager
    def running(self, code: CodeType) -> Iterator[None]:
        """Within this context the function runs this code."""
        function: Any = self.function
        before, function.__code__ = function.__code__, code
        try:
            yield
        finally:
            function.__code__ = before

    @property
    def may_run_for_ever(self) -> bool:
        """Whether a changed version might never end: it waits for a condition, or counts without end."""
        return any(
            isinstance(node, ast.While) or ENDLESS & {getattr(node, "id", ""), getattr(node, "attr", "")}
            for node in ast.walk(self.definition)
        )

    def place(self, line: int) -> str:
        """A line of the tree as the user knows it: its file or its cell, and the function."""
        name, file = self.function.__name__, PurePath(self.function.__code__.co_filename)
        at = f"line {self.first + line - 1}"
        inside = "" if self.definition.name == LAMBDA else f", in {name}"
        if "ipykernel" in str(file) or str(file).startswith(("<ipython-input", "<python-input", "<stdin")):
            return f"{at} of its cell{inside}"
        return f"{at} of {name}" if str(file).startswith("<") else f"{file.name}, {at}{inside}"

    def sentence(self, edit: TreeEdit) -> str:
        """A change: its line, what stands there, and what should."""
        before = edit.site.get()
        place = self.place(getattr(before, "lineno", getattr(edit.site.parent, "lineno", 1)))
        node = located(edit.node, before)
        is_plain = isinstance(edit.site.parent, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Call) and not edit.also
        whole: Any = edit.site.parent if is_plain and self._is_elsewhere_too(before) else before
        old = ast.unparse(whole)
        edit.site.put(node)
        new = ast.unparse(node if whole is before else whole)
        edit.site.put(before)
        if isinstance(edit.node, ast.If):  # a name is transposed before a return, or after another statement
            when, turned = ("in", edit.node.body[0]) if isinstance(before, ast.Return) else ("after", edit.node.body[1])
            name = ast.unparse(turned).partition(" = ")[0]
            return f"{place}: {when} `{_short(old)}`, `{name}` should be `{name}.mT`"
        if _TRANSPOSED not in old:
            new = new.replace(_TRANSPOSED, ".mT")  # shorter, where it is not the user's own spelling
        where = f", in {len(edit.also) + 1} places" if edit.also else ""
        return f"{place}: `{_short(old)}` should {f'be `{_short(new)}`' if new != 'pass' else 'not be there'}{where}"

    def _is_elsewhere_too(self, node: Any) -> bool:
        """Whether its line has the same name or number in two expressions, so that it alone does not tell its place."""
        text = ast.dump(node) if isinstance(node, ast.Name | ast.Constant) else ""
        alike = [n for n in ast.walk(self.definition) if getattr(n, "lineno", 0) == getattr(node, "lineno", 1)]
        return sum(ast.dump(n) == text for n in alike) > 1

    def callees(self) -> Iterator[Source]:
        """The functions of the user's that it calls by name, and those that these call."""
        seen, waiting = {self.function}, [self]
        while waiting:
            names = dict.fromkeys(n.id for n in ast.walk(waiting[0].definition) if isinstance(n, ast.Name))
            for function in map(waiting.pop(0).names.get, names):
                source = source_of(function) if callable(function) else None
                if source is not None and not is_installed(source.function) and source.function not in seen:
                    seen.add(source.function)
                    waiting.append(source)
                    yield source


def _short(text: str) -> str:
    text = text.replace("__import__('numpy')", "np")
    return text if len(text) <= 100 else f"{text[:48]} … {text[-48:]}"


def _code_in(code: CodeType, name: str) -> CodeType:
    return next(const for const in code.co_consts if isinstance(const, CodeType) and const.co_name == name)


def is_installed(function: Any, kind: type | None = None) -> bool:
    """Whether a function is from a library: from Python's, or from npformer's and no method of another's class."""
    file = PurePath(function.__code__.co_filename)
    libraries = map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))
    is_ours = all(str(each.__module__).startswith("npformer.") for each in (function, kind or function))
    return is_ours or any(file.is_relative_to(place) for place in libraries)


def source_of(backward: Callable[..., Any]) -> Source | None:
    """The source of a function, a lambda or an interpreted kernel; None if it has none, as at Python's prompt."""
    kernel, rewritten = kernel_of(backward), None
    if kernel is not None:
        function, rewritten = python_of(kernel)
    else:
        function = unwrapped(backward)
    if not isinstance(function, FunctionType):
        return None
    try:
        if function.__name__ == "<lambda>":
            body: list[ast.stmt] = [_lambda_of(function.__code__, "".join(inspect.findsource(function)[0]))]
            first = 1
        else:
            tree, first = tree_of(function if kernel is None else kernel.fn)
            body = tree.body
    except (OSError, SyntaxError, TypeError, ValueError, tokenize.TokenError):
        return None
    definition = body[0]
    if not isinstance(definition, ast.FunctionDef):
        return None
    definition.decorator_list = []
    free = [ast.Assign([ast.Name(n, ast.Store())], ast.Constant(None)) for n in function.__code__.co_freevars]
    outer = ast.Module([ast.FunctionDef(_OUTER, _NO_ARGUMENTS, [*free, definition], [])], [])
    names = function.__globals__ | dict(inspect.getclosurevars(function).nonlocals)
    return Source(function, outer, definition, first, names, rewritten)


def _lambda_of(code: CodeType, text: str) -> ast.FunctionDef:
    """The lambda with this code as a function that returns its body. Raises ValueError if the text does not hold it."""
    spans = {(start, left, end, right) for start, end, left, right in code.co_positions()}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Lambda):
            body = node.body
            if (body.lineno, body.col_offset, body.end_lineno, body.end_col_offset) in spans:
                result = ast.copy_location(ast.Return(body), body)
                made = ast.copy_location(ast.FunctionDef(LAMBDA, node.args, [result], []), node)
                return ast.fix_missing_locations(made)
    raise ValueError("no such lambda")


def parts_of(function: FunctionType, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a tuple, a list or an object that the function was given: ``cache[0]``, ``self.x``."""
    held, parts = [id(value) for value in variables.values()], dict[str, Any]()
    for name in function.__code__.co_varnames[: function.__code__.co_argcount]:
        whole = variables.get(name)
        if isinstance(whole, tuple | list):
            parts |= {f"{name}[{i}]": part for i, part in enumerate(whole) if id(part) not in held}
        elif hasattr(whole, "__dict__"):
            parts |= {f"{name}.{attribute}": part for attribute, part in vars(whole).items()}
    return {text: as_numpy(value) for text, value in parts.items()}


def unused_in(source: Source) -> list[str]:
    """The names that the function computes or unpacks, and never uses."""
    nodes = [node for node in ast.walk(source.definition) if isinstance(node, ast.Name | ast.Assign | ast.AugAssign)]
    made = [n for node in nodes if isinstance(node, ast.Assign) for target in node.targets for n in ast.walk(target)]
    stored = [n.id for n in made if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    used = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    used |= {getattr(node.target, "id", "") for node in nodes if isinstance(node, ast.AugAssign)}
    return [name for name in dict.fromkeys(stored) if name not in used and not name.startswith("_")]


def helpers_of(forward: Callable[..., Any], source: Source) -> tuple[str, ...]:
    """Names of functions that the forward calls with one argument, and the backward can call too."""
    of_forward = source_of(forward)
    if of_forward is None:
        return ()
    calls = [
        n for n in ast.walk(of_forward.definition) if isinstance(n, ast.Call) and len(n.args) == 1 and not n.keywords
    ]
    names = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
    return tuple(sorted(name for name in names if isinstance(source.names.get(name), FunctionType)))


def pool(texts: Mapping[str, Any], unused: Sequence[str], is_of_kernel: bool = False) -> dict[str, Any]:
    """The values for changes, by their source: names that are not used yet, other names, longer expressions.

    In a kernel, arrays of integers are addresses, and a block's sizes are no lengths.
    """
    if is_of_kernel:
        texts = {text: v for text, v in texts.items() if not np.ndim(v) or v.dtype.kind in "fb"}
    values = {
        text: value
        for text, value in sorted(texts.items(), key=lambda item: (item[0] not in unused, len(item[0])))
        if _is_number_or_array(value) and not text.lstrip("-").replace(".", "").isdigit()
    }
    names = [text for text in values if text.isidentifier()][:MOST_NAMES]
    others = [text for text in values if not text.isidentifier()]
    values = {text: values[text] for text in (*names, *others[: max(MOST_POOL - len(names), MOST_POOL // 4)])}
    arrays = {text: value for text, value in values.items() if np.ndim(value)}
    sizes: dict[str, Any] = {}
    for text, value in list(arrays.items())[:16]:
        if text.isidentifier() and not is_of_kernel:
            sizes |= {f"{text}.shape[{axis}]": length for axis, length in enumerate(np.shape(value))}
            sizes[f"{text}.shape[-1] ** 0.5"] = math.sqrt(np.shape(value)[-1])
            sizes |= {f"{text}.size": np.size(value)} | ({f"{text}.sum()": value.sum()} if is_mask(value) else {})
    return values | {text: value for text, value in sizes.items() if value > 1}


def _is_number_or_array(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fiub" and 0 < value.size <= 1_000_000
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def constants_of(forward: Callable[..., Any]) -> tuple[float, ...]:
    """Numbers in the forward's source, and common constants of the field."""
    known = [math.sqrt(2 / math.pi), math.sqrt(2 * math.pi), 1 / math.sqrt(2 * math.pi), math.sqrt(0.5), math.pi,
             2 / math.sqrt(math.pi), 1 / math.sqrt(math.pi), 0.044715, 3 * 0.044715]  # fmt: skip
    source = source_of(forward)
    if source is None:
        return tuple(known)
    nodes = [n.value for n in ast.walk(source.definition) if isinstance(n, ast.Constant)]
    numbers = [n for n in nodes if isinstance(n, int | float) and not isinstance(n, bool)]
    numbers += [
        value
        for name in sorted(source.function.__code__.co_names)
        if isinstance(value := source.names.get(name), float)
    ]
    return tuple(dict.fromkeys([*numbers, *(3 * n for n in numbers), *known]))
