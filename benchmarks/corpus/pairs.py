"""The corpus: pairs and their mistakes, read from the TOML files beside this one.

A theme has a setup, a text that its pairs share. A pair has code, written below the setup, and expressions of what they
define: target, inputs (or draw(rng)), reference, options. A mistake changes the code of a function in one place.
"""

import ast
import importlib.util
import itertools
import re
import sys
import tempfile
import textwrap
import tomllib
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.machine import ROOT
from npformer.lab.mistake import Edit, EditError, Mistake, replaced

HERE = Path(__file__).parent
LISTS = ("foreign", "verdicts", "precision", "regimes", "sources", "judge", "tolerance", "derivations", "people",
         "people_blind")  # fmt: skip
DERIVATIONS = ROOT / "tests" / "check" / "derivations"
_numbers = itertools.count()


@dataclass(frozen=True)
class Pair:
    """A pair as somebody wrote it. deserves: "right", "wrong", or "below": wrong by less than its precision shows."""

    list: str
    theme: str
    name: str
    text: str  # setup and code
    deserves: str = "right"
    says: str = ""
    target: str = ""
    made: str = ""  # instead of target and inputs: an expression of both
    inputs: str = ""
    draw: str = ""
    reference: str = ""
    options: str = ""
    precision: str = ""
    accumulate: str = "float32"
    kernel: str = ""  # of a tolerance: the right kernel in NumPy, for a way to store
    torch: str = ""  # of a tolerance: the text that makes KERNELS, the right ones of PyTorch
    size: float = 0.0
    may: tuple[str, ...] = ()
    not_right: dict[str, str] = field(default_factory=dict)  # regime: why the pair is no derivative there
    mistakes: tuple[Mistake, ...] = ()
    answer: str = ""  # what a person would name: a line, a term, what cuts the graph, a form, …
    lines: tuple[int, ...] = ()  # that an explanation may name
    words: tuple[str, ...] = ()  # one of which it may say instead

    def deserved(self, mistake=None):
        """What the pair deserves, or a mistake in it."""
        return self.deserves if mistake is None else "below" if mistake.size else "wrong"

    def source(self, mistake=None):
        """The text, with a mistake. Raises EditError unless what it changes occurs exactly once."""
        return self.text if mistake is None else mistaken(self.text, *mistake.edits)

    def line(self, mistake):
        """The line of the changed text on which the mistake is: the first that is another, or that is marked."""
        if mistake is None:
            return next((i for i, line in enumerate(self.text.splitlines(), 1) if "# wrong" in line), None)
        lines = zip(self.text.splitlines(), self.source(mistake).splitlines(), strict=False)
        return next(i for i, (old, new) in enumerate(lines, 1) if old != new)


def mistaken(text, edit):
    """A text with a change in it. Raises EditError where it does not fit."""
    function = tree = ast.parse(text)
    for name in filter(None, edit.where.split(".")):
        found = [node for node in ast.walk(function) if getattr(node, "name", None) == name]
        if len(found) != 1:
            raise EditError(f"where: expected one function {edit.where}, found {len(found)} of the name {name}")
        (function,) = found
    if function is tree:
        return replaced(text, edit.old, edit.new)
    lines = text.splitlines(keepends=True)
    span = slice(function.lineno - 1, function.end_lineno)
    part = textwrap.dedent("".join(lines[span]))
    changed = replaced(part.rstrip("\n") + "\n", edit.old, edit.new)
    lines[span] = [textwrap.indent(changed, " " * function.col_offset)]
    return "".join(lines)


@cache
def pairs(which):
    """The pairs of one of ``LISTS``."""
    if which == "derivations":
        return tuple(derivations())
    document = tomllib.loads((HERE / f"{which}.toml").read_text(encoding="utf-8"))
    return tuple(_pair(which, theme, one) for theme in document["theme"] for one in theme["pair"])


def _pair(which, theme, one):
    text = "\n\n\n".join(part.strip("\n") for part in (theme.get("setup", ""), one.get("code", "")) if part) + "\n"
    mistakes = tuple(_mistake(**_frozen(each)) for each in one.get("mistake", ()))
    rest = _frozen({key: x for key, x in one.items() if key not in ("code", "mistake")})
    return Pair(which, theme["name"], text=text, mistakes=mistakes, **{"reference": theme.get("reference", "")} | rest)


def _mistake(old, new, where="", **said):
    return Mistake((Edit(where, old, new),), **said)


def derivations():
    """Derivations on paper; a wrong one marks its first wrong line."""
    for path in sorted(DERIVATIONS.glob("*_*.txt")):
        when, deserves = path.stem.split("_")
        for part in re.split(r"^### ", path.read_text(encoding="utf-8"), flags=re.M)[1:]:
            head, _, text = part.partition("\n")
            yield Pair("derivations", when, head.partition(" | ")[0], text, deserves)


def _frozen(table):
    return {key: tuple(x) if isinstance(x, list) else x for key, x in table.items()}


@contextmanager
def loaded(pair, mistake=None):
    """evaluate(expression): in the names that the pair's text defines, from a file as a person would have it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"pair_{next(_numbers)}.py"
        path.write_text(pair.source(mistake), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            yield lambda expression: eval(f"({expression})", vars(module)) if expression else None
        finally:
            del sys.modules[spec.name]


def as_tuple(x: Any) -> tuple[Any, ...]:
    """Several values as they are, a single one as a tuple."""
    return x if isinstance(x, tuple) else (x,)
