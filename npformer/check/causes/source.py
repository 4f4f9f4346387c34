"""A backward's source and its values in a run, the material for changes."""

from __future__ import annotations

import ast
import copy
import inspect
import itertools
import math
import sysconfig
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from npformer.check.adapters.triton_kernels import kernel_of, python_of
from npformer.check.causes.nodes import TreeEdit, is_mask
from npformer.check.checkable import as_numpy, tree_of, unwrapped
from npformer.typing import Function, Named, Values

#: The most values for changes, if there are not more names.
MOST_POOL, MOST_NAMES = 32, 64
#: The most other calls that are tried for one.
MOST_TWINS = 8
_TRANSPOSED = ".swapaxes(-1, -2)"
#: The name of a lambda that was made a function.
LAMBDA = "_lambda_"
_OUTER, _NO_ARGUMENTS = "_outer_", ast.arguments([], [], None, [], [], None, [])


class Source(NamedTuple):
    """A function with the tree that it was parsed to, and the names that it sees."""

    function: Any  # a FunctionType
    tree: ast.Module  # a function that has its free variables, and in it the function's definition
    definition: Any  # what is changed: the function's own, or one inside it, also a lambda
    first: int  # line of its file
    names: Values
    rewritten: Callable[[ast.Module], ast.Module] | None = None  # what Triton's interpreter makes of a tree

    @property
    def whole(self) -> ast.FunctionDef:
        """The function's own definition."""
        return next(node for node in self.tree.body[0].body if isinstance(node, ast.FunctionDef))  # type: ignore[attr-defined]

    @property
    def is_inner(self) -> bool:
        """Whether a definition inside the function is changed, such as a closure that the forward returns."""
        return self.definition is not self.whole

    @property
    def name(self) -> str:
        """That of what is changed."""
        return getattr(self.definition, "name", "a lambda")

    def code(self) -> CodeType:
        """The function's code, with the definition as it is now; the function keeps its defaults and variables."""
        whole = self.whole
        kept = {whole: self.function.__code__.co_freevars} | ({self.definition: self._around} if self.is_inner else {})
        added = [(node.body, _using(names)) for node, names in kept.items() if isinstance(node, ast.FunctionDef)]
        for body, line in added:
            body.insert(0, line)
        try:
            tree = self.rewritten(copy.deepcopy(self.tree)) if self.rewritten else self.tree
            module = compile(ast.fix_missing_locations(tree), "<a change of backward>", "exec")
        finally:
            for body, line in added:
                body.remove(line)
        outer = _code_in(module, _OUTER)
        return _code_in(outer, whole.name)

    @property
    def _around(self) -> list[str]:
        """The variables of the function that a definition inside it may use."""
        own = {id(node) for node in ast.walk(self.definition)}
        inside = _variables(ast.walk(self.definition))
        around = _variables(node for node in ast.walk(self.whole) if id(node) not in own)
        return [name for name in around if name not in inside]

    def inner(self, code: CodeType) -> Source | None:
        """The definition inside the function that was compiled to this code, in the same tree; None if none was."""
        for node in ast.walk(self.whole):
            if isinstance(node, ast.FunctionDef | ast.Lambda) and getattr(node, "name", "<lambda>") == code.co_name:
                decorated = [node, *getattr(node, "decorator_list", ())]
                if self.first + min(each.lineno for each in decorated) - 1 == code.co_firstlineno:
                    return self._replace(definition=node)
        return None

    @contextmanager
    def running(self, code: CodeType) -> Iterator[None]:
        """Within this context the function runs this code."""
        function: Any = self.function
        before, function.__code__ = function.__code__, code
        try:
            yield
        finally:
            function.__code__ = before

    def place(self, line: int) -> str:
        """A line of the tree as the user knows it: its file or its cell, and the function."""
        name, file = self.name, PurePath(self.function.__code__.co_filename)
        at = f"line {self.first + line - 1}"
        inside = "" if name == LAMBDA else f", in {name}"
        if "ipykernel" in str(file) or str(file).startswith(("<ipython-input", "<python-input", "<stdin")):
            return f"{at} of its cell{inside}"
        return f"{at} of {name}" if str(file).startswith("<") else f"{file.name}, {at}{inside}"

    def sentence(self, edit: TreeEdit) -> str:
        """A change: its line, what stands there, and what should."""
        before = edit.site.get()
        place = self.place(getattr(before, "lineno", getattr(edit.site.parent, "lineno", 1)))
        node = edit.placed
        is_plain = isinstance(edit.site.parent, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Call) and not edit.also
        whole: Any = edit.site.parent if is_plain and self._is_elsewhere_too(before) else before
        old = ast.unparse(whole)
        edit.site.put(node)
        new = ast.unparse(node if whole is before else whole)
        edit.site.put(before)
        if isinstance(before, ast.With):
            return f"{place}: `with {ast.unparse(before.items[0])}` cuts the graph"
        if isinstance(before, ast.For) and isinstance(edit.node, ast.If):
            return f"{self.place(before.body[-1].lineno)}: `{ast.unparse(before.body[-1])}` should stand after the loop"
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


def _using(names: Sequence[str]) -> ast.Expr:
    """A statement that makes a function see these names, though a change may use none."""
    return ast.Expr(ast.Lambda(_NO_ARGUMENTS, ast.Tuple([ast.Name(name, ast.Load()) for name in names], ast.Load())))


def _variables(nodes: Iterable[ast.AST]) -> list[str]:
    """The names that are arguments or set."""
    names = [
        node.arg if isinstance(node, ast.arg) else node.id
        for node in nodes
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    ]
    return list(dict.fromkeys(names))


def _code_in(code: CodeType, name: str) -> CodeType:
    return next(const for const in code.co_consts if isinstance(const, CodeType) and const.co_name == name)


def is_installed(function: Any, kind: type | None = None) -> bool:
    """Whether a function is from a library: from Python's, or from npformer's and no method of another's class."""
    file = PurePath(function.__code__.co_filename)
    libraries = map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))
    is_ours = all(str(each.__module__).startswith("npformer.") for each in (function, kind or function))
    return is_ours or any(file.is_relative_to(place) for place in libraries)


def source_of(backward: Function, code: CodeType | None = None) -> Source | None:
    """The source of a function, a lambda or an interpreted kernel; None if it has none, as at Python's prompt.

    code: of the definition inside the function that is meant, if not the function itself.
    """
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
    source = Source(function, outer, definition, first, names, rewritten)
    return source if code is None else source.inner(code)


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


def parts_of(source: Source, variables: Named) -> Values:
    """The parts of what the function was given, or sees: ``cache[0]``, ``cache["x"]``, ``self.x``, ``out.grad``."""
    held, parts = [id(value) for value in variables.values()], Values()
    for name in variables if source.is_inner else _variables(ast.walk(source.definition.args)):
        whole = variables.get(name)
        if isinstance(whole, tuple | list | dict):
            items = whole.items() if isinstance(whole, dict) else enumerate(whole)
            parts |= {f"{name}[{key!r}]": part for key, part in items if id(part) not in held}
        elif hasattr(whole, "__dict__") and not isinstance(whole, type | FunctionType | ModuleType):
            whole = vars(whole).get("_ctx", whole)  # copies of what a torch.autograd.Function saved
            parts |= {f"{name}.{attribute}": part for attribute, part in vars(whole).items()}
    return {text: as_numpy(value) for text, value in parts.items()}


def unused_in(source: Source) -> list[str]:
    """The names that the function computes or unpacks, and never uses."""
    nodes = list(ast.walk(source.definition))
    targets = [target for node in nodes if isinstance(node, ast.Assign) for target in node.targets]
    stored = _variables(part for target in targets for part in ast.walk(target))
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return [name for name in stored if name not in used and not name.startswith("_")]


def pool(texts: Named, unused: Sequence[str], is_of_kernel: bool = False) -> Values:
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
    arrays, sizes = [(text, value) for text, value in values.items() if np.ndim(value)], Values()
    for text, value in arrays[:16]:
        if text.isidentifier() and not is_of_kernel:
            sizes |= {f"{text}.shape[{axis}]": length for axis, length in enumerate(np.shape(value))}
            sizes[f"{text}.shape[-1] ** 0.5"] = math.sqrt(np.shape(value)[-1])
            sizes |= {f"{text}.size": np.size(value)} | ({f"{text}.sum()": value.sum()} if is_mask(value) else {})
    return values | {text: value for text, value in sizes.items() if value > 1}


def _is_number_or_array(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fiub" and 0 < value.size <= 1_000_000
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def constants_of(forward: Any) -> tuple[float, ...]:
    """The numbers in a forward's source, of its names and among its defaults."""
    values: list[Any] = [value for _, value in _numbers_in(source_of(forward))]
    values += [*(getattr(unwrapped(forward), "__defaults__", None) or ()), *getattr(forward, "keywords", {}).values()]
    return tuple(dict.fromkeys(x for x in values if type(x) in (int, float)))


def named_numbers(forward: Any) -> dict[str, float]:
    """The numbers that a forward uses by a name of its module, or of the function around it."""
    return {name: x for name, x in _numbers_in(source_of(forward)) if name.isidentifier()}


def literals_of(sources: Iterable[Source]) -> dict[str, float]:
    """The numbers that stand in these functions, each with its line; none of the small ones that explain anything."""
    numbers = itertools.chain.from_iterable(map(_numbers_in, sources))
    return {name: float(x) for name, x in numbers if not name.isidentifier() and x not in COMMON}


def _numbers_in(source: Source | None) -> Iterator[tuple[str, float]]:
    """The numbers that a function sees: literals with their lines, and those of names from outside."""
    if source is None:
        return
    for node in ast.walk(source.whole):
        value: Any = node.value if isinstance(node, ast.Constant) else source.names.get(getattr(node, "id", ""))
        if type(value) in (int, float):
            at = source.first + getattr(node, "lineno", 1) - 1
            yield node.id if isinstance(node, ast.Name) else f"{value} (line {at})", value


#: Numbers that are no names.
COMMON = (0, 1, -1, 2, -2, 0.5)


def twins_in(source: Source, variables: Named) -> dict[str, tuple[str, ...]]:
    """Other calls for each call of a function of the user's: with its flag turned, or of one beside it."""
    found = dict[str, tuple[str, ...]]()
    seen = source.function.__globals__ | source.names | dict(variables)
    for node in ast.walk(source.definition):
        if not isinstance(node, ast.Call) or node.keywords:
            continue
        text, arguments = ast.unparse(node.func), ", ".join(map(ast.unparse, node.args))
        owner, dot, name = text.rpartition(".")
        beside: Named = vars(type(seen.get(owner))) if owner else seen
        functions = {other: unwrapped(x) for other, x in beside.items() if isinstance(unwrapped(x), FunctionType)}
        function = functions.pop(name, None)
        if function is None or is_installed(function):
            continue
        flags = [p for p in inspect.signature(function).parameters.values() if type(p.default) is bool]
        calls = [f"{text}({arguments}, {p.name}={not p.default})" for p in flags]
        alike = [other for other, twin in functions.items() if _form(twin) == _form(function)]
        found[ast.unparse(node)] = (*calls, *(f"{owner}{dot}{other}({arguments})" for other in alike))[:MOST_TWINS]
    return found


def _form(function: FunctionType) -> tuple[str, int]:
    """A function's module, and the number of arguments that a call has to give."""
    return function.__module__, function.__code__.co_argcount - len(function.__defaults__ or ())
