"""The lines of a derivation: inputs, a forward, and the gradients derived from it.

They are Python's, and read with Python's own parser. What they may hold is listed here, so that a derivation can be run
at any numbers and sizes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from itertools import takewhile
from typing import Any, NamedTuple

from npformer.errors import DataError

GRAMMAR = """  x: (N, C)                     an input of random numbers; letters are sizes, and formulas may use them
  v: (C,) > 0                   an input of positive numbers
  t: (N,) < C                   an input of whole numbers below C
  y = np.exp(x) * v             the forward, one name a line; the last line is the output
  dx = dy * y                   the backward: dNAME is the derivative of the loss by NAME, in the shape of NAME
  partial(y, v) = np.exp(x)     how y changes with v by y's own line, every other name held
dy is given; if the output is one number, it is the loss. Every line is Python over NumPy, with axis and keepdims
written out. Any other name in the backward is your own, and is not compared."""

#: What an expression is made of.
_NODES = (
    ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List,
    ast.Name, ast.Constant, ast.keyword, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip
#: Functions and numbers of NumPy, and what arrays have.
_NUMPY_NAMES = (
    "abs arange argmax arctan array broadcast_to concatenate cos cosh cumsum diag diagonal dot einsum exp "
    "expand_dims expm1 eye flip float64 inf log log1p logaddexp matmul matrix_transpose max maximum mean min "
    "minimum moveaxis multiply newaxis ones ones_like outer pad pi power prod repeat reshape roll sign sin sinh "
    "sqrt square squeeze stack std sum swapaxes take_along_axis tan tanh tensordot tile trace transpose tril triu "
    "var where zeros zeros_like"
)
_ARRAY_NAMES = (
    "T mT shape size ndim sum mean max min var std prod cumsum dot reshape transpose swapaxes squeeze ravel repeat "
    "diagonal trace copy astype"
)
_OF_NUMPY, _OF_ARRAYS = frozenset(_NUMPY_NAMES.split()), frozenset(_ARRAY_NAMES.split())
_OWN = "lines of your own go after the first gradient"
_PARTIAL = re.compile(r"^(\s*partial\s*\(\s*\w+\s*,\s*\w+\s*\)\s*)=(?!=)", re.M)
#: How to write what people write in other notations, by what shows them in a line.
_SPELLINGS = (
    (r"∂|\\|^\s*d?[A-Za-z]\w*\s*/\s*d\w+\s*=", "write dx for ∂L/∂x, and partial(y, x) for ∂y/∂x"),
    (r"[·×⋅∘⊙]", "write * for a product entry by entry, @ for one of matrices"),
    (r"[²³^]", "write ** for a power"),
    (r"ᵀ|\^ ?T\b", "write x.T for a transposed array"),
    (r"(?<![\w.])\d[\d.]*(?![eE][-+\d])[A-Za-z_]", "write 2 * x for 2x"),
    (r"^\w+ *(:=|==)", "write = between a name and its formula"),
    (r"^\s", "begin each line at the left"),
    (r"^\w+ *:(?! *\([^()]*,)", "write a shape as (N, C), that of a vector as (N,)"),
)


class Input(NamedTuple):
    """An input: its shape's sizes, each a letter or a number, and its kind of numbers."""

    name: str
    shape: tuple[ast.expr, ...]
    kind: str  # "", "positive" or "whole"
    below: ast.expr | None  # of whole numbers


class DerivationLine(NamedTuple):
    """name = expression. In the backward, ``of`` is what it is compared with: a name, or (A, B) for partial(A, B)."""

    number: int
    name: str
    value: ast.expr
    of: str | tuple[str, str] | None = None

    @property
    def uses(self) -> set[str]:
        """The names in the expression."""
        return {node.id for node in ast.walk(self.value) if isinstance(node, ast.Name)}

    @property
    def is_blank(self) -> bool:
        """Whether it is ``...``, still to be written."""
        return isinstance(self.value, ast.Constant) and self.value.value is ...


class Derivation(NamedTuple):
    """The parts of a derivation; letters: sizes in the order of their first use."""

    path: str
    inputs: tuple[Input, ...]
    forward: tuple[DerivationLine, ...]
    backward: tuple[DerivationLine, ...]
    letters: tuple[str, ...]

    @property
    def nodes(self) -> list[str]:
        """Every name of the forward."""
        return [*(each.name for each in self.inputs), *(line.name for line in self.forward)]

    @property
    def output(self) -> str:
        return self.forward[-1].name

    def line_of(self, name: str) -> DerivationLine:
        """The forward's line that sets a name."""
        return next(line for line in self.forward if line.name == name)

    def users(self, name: str) -> list[DerivationLine]:
        """The forward's lines that use a name."""
        return [line for line in self.forward if name in line.uses]


def read(text: str, path: str = "it") -> Derivation:
    """Parse a derivation. Raises DataError, with the line, for what the grammar does not have."""
    try:
        tree = ast.parse(_PARTIAL.sub(r"\1==", text))
    except SyntaxError as error:
        raise _refused(path, error.lineno or 1, f"it is not Python: {error.msg}", text) from None
    except (RecursionError, MemoryError):
        raise _refused(path, 1, "a formula here or below is nested too deeply: write it in several lines", "") from None
    reader = _GrammarReader(path, text, _helpers(tree))
    for node in tree.body:
        reader.take(node)
    return reader.made()


def _helpers(tree: ast.Module) -> list[str]:
    """Lines of one's own before the first gradient: those after the last name whose gradient is used and not derived.

    Each is used, and none has a gradient.
    """
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    used, lines = ([node.id for node in names if isinstance(node.ctx, kind)] for kind in (ast.Load, ast.Store))
    given = [at for at, name in enumerate(lines) if f"d{name}" in set(used).difference(lines)]
    before = list(takewhile(lambda name: name[:1] != "d", lines[given[-1] + 1 :] if given else []))
    return before if all(name in used and f"d{name}" not in used + lines for name in before) else []


class _GrammarReader:
    """Takes one statement after another; helpers: lines of the backward that no gradient stands before."""

    def __init__(self, path: str, text: str, helpers: Collection[str]) -> None:
        self._path, self._text, self._helpers = path, text, helpers
        self._inputs: dict[str, Input] = {}
        self._forward: dict[str, DerivationLine] = {}
        self._backward: list[DerivationLine] = []
        self._letters: dict[str, None] = {}
        self._last = 0

    def take(self, node: ast.stmt) -> None:
        if node.lineno <= self._last:
            raise self._error(node, "expected one statement a line, got two")
        self._last = node.end_lineno or node.lineno
        match node:
            case ast.Import() if ast.unparse(node) == "import numpy as np":
                pass
            case ast.AnnAssign(ast.Name(name), kind, None):
                self._take_input(node, name, kind)
            case ast.Assign([ast.Name(name)], value):
                self._take_line(node, name, value)
            case ast.AugAssign(ast.Name(name), op, value):
                self._take_line(node, name, ast.copy_location(ast.BinOp(ast.Name(name, ast.Load()), op, value), value))
            case ast.Expr(ast.Compare(ast.Call(ast.Name("partial"), [ast.Name(a), ast.Name(b)], []), [ast.Eq()], [c])):
                self._check(node, c)
                self._expect_used(node, a, b)
                self._append(node, DerivationLine(node.lineno, f"partial({a}, {b})", c, (a, b)))
            case ast.Assign([ast.Subscript()]) | ast.AugAssign(ast.Subscript()):
                raise self._error(
                    node, "an entry cannot be set: write all entries as one formula, as with np.where or np.eye"
                )
            case ast.Assign([_, *_]):
                raise self._error(node, "expected one name before =, and a line for each name")
            case _:
                raise self._error(node, f"expected one of the grammar's lines, got `{_short(ast.unparse(node))}`")

    def _take_input(self, node: ast.stmt, name: str, kind: ast.expr) -> None:
        shape: Any = kind
        below: Any = None
        which = ""
        match kind:
            case ast.Compare(shape, [ast.Gt()], [ast.Constant(0)]):
                which = "positive"
            case ast.Compare(shape, [ast.Lt()], [below]):
                which = "whole"
        if not isinstance(shape, ast.Tuple) or self._backward or name in {*self._forward, *self._inputs}:
            raise self._error(node, f"expected an input `{name}: (N, C)`, perhaps with > 0 or < C after it, once, "
                                    f"got `{ast.unparse(node)}`")  # fmt: skip
        sizes = [*shape.elts, *([below] if below else [])]
        letters = [part.id for size in sizes for part in ast.walk(size) if isinstance(part, ast.Name)]
        if taken := [letter for letter in letters if letter in {*self._inputs, *self._forward, name}]:
            raise self._error(node, f"{taken[0]} is a name and cannot be a size as well: use another letter")
        self._letters |= dict.fromkeys(letters)
        self._inputs[name] = Input(name, tuple(shape.elts), which, below)

    def _take_line(self, node: ast.stmt, name: str, value: ast.expr) -> None:
        self._check(node, value)
        known, line = {*self._inputs, *self._forward}, DerivationLine(node.lineno, name, value)
        if name in {*self._letters, "np", "partial"}:
            raise self._error(node, f"{name} is a size or a function and cannot be set: use another name")
        is_backward = any(
            n[:1] == "d" and n[1:] in known and n not in {*known, *self._letters} for n in {name, *line.uses}
        )
        if not is_backward and not self._backward and name not in self._helpers:
            if name in known:
                raise self._error(node, f"{name} is set twice; in the forward, expected a new name in each line")
            if line.is_blank:
                raise self._error(node, f"{name} is of the forward: expected its formula, got dots")
            self._expect_known(node, line.uses, known)
            self._forward[name] = line
            return
        if name in known:
            raise self._error(node, f"{name} is of the forward; expected another name here, such as d{name}")
        self._append(node, line._replace(of=name[1:] if name[:1] == "d" and name[1:] in known else None))

    def _append(self, node: ast.stmt, line: DerivationLine) -> None:
        """Take a line of the backward."""
        self._expect_one_output()
        mine = {each.name for each in self._backward if not isinstance(each.of, tuple)}
        self._expect_known(node, line.uses, {*self._inputs, *self._forward, *mine, self._given})
        self._backward.append(line)

    @property
    def _given(self) -> str:
        """The name of the gradient that is given: that of the output."""
        return f"d{next(reversed(self._forward), '')}"

    def _expect_known(self, node: ast.stmt, uses: set[str], known: set[str]) -> None:
        for use in sorted(uses - known - {*self._letters, "np", "partial"}):
            hint = f"expected one of {', '.join(sorted(known))}"
            if use in _OF_NUMPY:
                hint = f"write np.{use}"
            if use[:1] == "d" and use[1:] in known:
                order = "a gradient is used after the line that derives it, from the output backwards"
                hint = f"{order}; {self._given} is given, since {self._given[1:]} is the forward's last line"
                hint += f" ({_OWN})" * (use[1:] in self._forward)
            raise self._error(node, f"{use} is not known here: {hint}")

    def _expect_one_output(self) -> None:
        """Every line of the forward that depends on real numbers leads to the last line."""
        used = {name for line in self._forward.values() for name in line.uses}
        varies = {name for name, each in self._inputs.items() if each.kind != "whole"}
        for name, line in [*self._forward.items()][:-1]:
            varies |= {name} if line.uses & varies else set()
            if name in varies - used:
                output = f"whose last line, {self._given[1:]}, counts as its output: {_OWN}"
                raise self._error(
                    ast.Pass(lineno=line.number), f"{name} is used by no later line of the forward, {output}"
                )

    def _expect_used(self, node: ast.AST, a: str, b: str) -> None:
        if a not in self._forward or b not in self._forward[a].uses:
            raise self._error(node, f"partial({a}, {b}): expected a forward's line that sets {a} and uses {b}")

    def _check(self, node: ast.stmt, value: ast.expr) -> None:
        """Raise DataError for what is in an expression and not in the grammar."""
        if isinstance(value, ast.Constant) and value.value is ...:
            return
        for part in ast.walk(value):
            match part:
                case ast.Attribute(ast.Name("np"), name) if name not in _OF_NUMPY:
                    raise self._error(node, f"np.{name} is not among the functions of a derivation: write it out")
                case ast.Attribute(ast.Name("np")):
                    continue
                case ast.Attribute(_, name) if name not in _OF_ARRAYS:
                    raise self._error(node, f".{name} is not among what arrays have in a derivation: use NumPy's names")
                case ast.Call(ast.Name("partial"), [ast.Name(a), ast.Name(b)], []):
                    self._expect_used(node, a, b)
                case ast.Call(ast.Name(name)):
                    instead = f"write np.{name}" if name in _OF_NUMPY else "write it out, in lines of its own"
                    raise self._error(node, f"{name} is no function of a derivation: {instead}")
                case ast.BinOp(ast.Constant(int() as base) as constant, ast.Pow()):
                    constant.value = float(base)  # 9 ** 9 ** 9 has no end as a whole number
                case ast.BitXor():
                    raise self._error(node, "^ is no power")
            if not isinstance(part, _NODES):
                raise self._error(node, f"`{_short(ast.unparse(part))}` is no part of a formula")

    def made(self) -> Derivation:
        if not self._forward:
            raise self._error(ast.Pass(lineno=1), "expected a forward, such as `y = x * v`")
        if not any(line.of for line in self._backward):
            got = "".join(f"; {line.name}: no name of the forward with a d before it" for line in self._backward[:1])
            expected = f"expected lines such as `dx = {self._given} * …` after it"
            raise self._error(ast.Pass(lineno=self._last), expected + got)
        return Derivation(
            self._path, tuple(self._inputs.values()), tuple(self._forward.values()),
            tuple(self._backward), tuple(self._letters),
        )  # fmt: skip

    def _error(self, node: ast.AST, what: str) -> DataError:
        return _refused(self._path, getattr(node, "lineno", 1), what, self._text)


def _refused(path: str, number: int, what: str, text: str) -> DataError:
    lines = text.splitlines()
    line = lines[number - 1] if 0 < number <= len(lines) else ""
    hints = [f"; {hint}" for written, hint in _SPELLINGS if re.search(written, line)] if "write" not in what else []
    rows = GRAMMAR.replace("\n", "\n  ")
    what += "".join(hints[:1])
    return DataError(f"{path}, line {number}: {what}\n  {line.strip()}\n  A derivation's lines:\n  {rows}")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:58]} …"
