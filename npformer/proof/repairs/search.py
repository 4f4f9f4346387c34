"""Finds the mistake in a wrong backward by undoing it: one small change of its source that makes it right.

The source of the backward, and that of each function of the user's that it calls, is changed in one place at a
time (``edits.py``), run on the forward's cache, and compared with the true gradients. A change that makes every wrong
tensor right, for several upstream gradients, reveals the mistake and its line. A change that makes some tensors right
and does not change the others is the first of several causes; the search for the next one continues in the changed
source. A function with unbounded loops is not changed, since it might never return.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import itertools
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from npformer.proof.checkable import as_numpy
from npformer.proof.measures import largest, max_abs
from npformer.proof.repairs.edits import edits, inventions
from npformer.proof.repairs.nodes import Edit, Known, sites
from npformer.proof.repairs.source import Source, constants_of, helpers_of, pool, source_of, variables_of
from npformer.proof.repairs.trial import Trial, trials_of
from npformer.proof.subject import Subject, Upstream
from npformer.proof.symmetric import SymmetricSubject
from npformer.typing import HostArrays, Tensors

#: Relative to a tensor's largest entry: gradients this near count as equal.
AGREES = 1e-7
MOST_CAUSES = 2
#: The most functions that are searched: methods of an object, and functions that one of them calls.
MOST_FUNCTIONS = 4


_TRANSPOSED = ".swapaxes(-1, -2)"


class Repair(NamedTuple):
    """A change that makes tensors right, and the mistake that it reveals."""

    cause: str
    text: str
    fixes: frozenset[str]


def repairs_of(
    subject: Subject, upstreams: Sequence[Upstream], truths: Sequence[Tensors], wrong: Sequence[str]
) -> list[Repair]:
    """The changes that make the wrong tensors right, one or two; none if there is no source, or none is found."""
    symmetric = subject.which if isinstance(subject, SymmetricSubject) else frozenset()
    checked = subject.inner if isinstance(subject, SymmetricSubject) else subject
    mains = [(trial, source) for trial in trials_of(checked, upstreams) if (source := source_of(trial.function))]
    found: list[Repair] = []
    left = set(wrong)
    with np.errstate(all="ignore"), warnings.catch_warnings(), contextlib.ExitStack() as kept:
        warnings.simplefilter("ignore")
        while left and len(found) < MOST_CAUSES:
            best = _best(mains, truths, symmetric, left)
            if best is None:
                break
            repair, edit, search = best
            kept.enter_context(search.keep(edit))
            found.append(repair)
            left -= repair.fixes
    return found


def _best(
    mains: Sequence[tuple[Trial, Source]],
    truths: Sequence[Tensors],
    symmetric: Collection[str],
    wrong: set[str],
) -> tuple[Repair, Edit, _Search] | None:
    """The first change that makes all of these right; else the first that makes most of them so."""
    best: tuple[Repair, Edit, _Search] | None = None
    searches = [
        _Search(trial, main, called, source, truths, symmetric)
        for trial, main in mains[:MOST_FUNCTIONS]
        for called, source in [("", main), *itertools.islice(main.callees(), MOST_FUNCTIONS)]
        if not source.may_run_for_ever
    ]
    # Inventions begin in the functions that the backward calls: what these lack could be added to their results, too.
    for kinds, those in ((edits, searches), (inventions, searches[::-1])):
        for search in those:
            for repair, edit in search.changes(kinds, wrong):
                if best is None or len(repair.fixes) > len(best[0].fixes):
                    best = repair, edit, search
            if best is not None and best[0].fixes == wrong:
                return best
    return best


@dataclass(eq=False)
class _Search:
    """The changes of one function: ``main``, the trial's own, or one that it calls by the name ``called``."""

    _trial: Trial
    _main: Source
    _called: str
    _source: Source
    _truths: Sequence[Tensors]
    _symmetric: Collection[str]

    def __post_init__(self) -> None:
        self._main_code = compile(self._main.tree, "<backward>", "exec")
        self._constants = constants_of(self._trial.forward)
        self._helpers = helpers_of(self._trial.forward, self._source)
        #: For each truth, how far each of its gradients may be off.
        self._slack = [
            {name: AGREES * max(max_abs(g), 1e-3 * largest(truth.values())) for name, g in truth.items()}
            for truth in self._truths
        ]

    def changes(
        self, kinds: Callable[[ast.FunctionDef, Known], Iterator[Edit]], wrong: set[str]
    ) -> Iterator[tuple[Repair, Edit]]:
        """The changes that make some of these right and no other tensor wrong, up to one that makes all right."""
        definition = self._source.definition
        for _, edit in zip(range(self._trial.most), kinds(definition, self._known()), strict=False):
            before = edit.site.get()
            fixes = self._tried(edit, wrong)
            if fixes:
                yield Repair(edit.cause, self._said(edit, before), frozenset(fixes)), edit
            if fixes == wrong:
                return

    def keep(self, edit: Edit) -> AbstractContextManager[None]:
        """Make this change for good: the search for another cause continues in the changed source."""
        edit.site.put(_located(edit.node, edit.site.get()))
        ast.fix_missing_locations(self._source.tree)
        function = self._made(self._source.tree)
        if self._called:
            self._main.names[self._called] = function
        return self._trial.exchanged(self._within(function))

    def _tried(self, edit: Edit, wrong: set[str]) -> set[str]:
        """The wrong tensors that the change makes right; empty if it makes another one wrong."""
        before = edit.site.get()
        edit.site.put(_located(edit.node, before))
        try:
            function = self._within(self._made(self._source.tree))
            fixes = set(wrong)
            for number in range(len(self._truths)):
                fixes = fixes and fixes & self._right(self._trial.run(function, number), number, wrong)
            return fixes
        except Exception:
            return set()
        finally:
            edit.site.put(before)

    def _right(self, found: HostArrays, number: int, wrong: set[str]) -> set[str]:
        fixes = set()
        for name, truth in self._truths[number].items():
            gradient = found[name]
            if name in self._symmetric:
                gradient = (gradient + np.swapaxes(gradient, -1, -2)) / 2
            is_right = gradient.shape == truth.shape and (np.abs(gradient - truth) <= self._slack[number][name]).all()
            if is_right and name in wrong:
                fixes.add(name)
            elif not is_right and name not in wrong:
                return set()
        return fixes

    def _made(self, tree: ast.Module, **more: Any) -> Any:
        """The function that the tree defines, which sees more names."""
        space = self._source.names | more
        exec(compile(tree, "<a change of backward>", "exec"), space)
        return space[self._source.definition.name]

    def _within(self, function: Any) -> Any:
        """The backward, with this in the place of the searched function."""
        if not self._called:
            return function
        space = self._main.names | {self._called: function}
        exec(self._main_code, space)
        return space[self._main.definition.name]

    def _known(self) -> Known:
        """Run the function once and record every expression's value."""
        values: dict[int, Any] = {}
        texts: dict[str, Any] = {}
        by_number: list[ast.expr] = []

        def seen(number: int, value: Any) -> Any:
            node, held = by_number[number], as_numpy(value)
            if id(node) not in values and isinstance(held, np.ndarray | np.generic | int | float):
                values[id(node)] = copy.copy(held) if isinstance(held, np.ndarray) else held
                texts.setdefault(ast.unparse(node), values[id(node)])
            return value

        twin = copy.deepcopy(self._source.tree)
        for original, site in reversed(list(zip(sites(self._source.tree), sites(twin), strict=True))):
            inner = site.get()
            if _has_value(inner):
                by_number.append(original.get())
                call = ast.Call(ast.Name("_seen_", ast.Load()), [ast.Constant(len(by_number) - 1), inner], [])
                site.put(ast.copy_location(call, inner))
        try:
            function = self._made(ast.fix_missing_locations(twin), _seen_=seen)
            backward = self._within(function)
            texts |= variables_of(function, lambda: self._trial.run(backward, 0))
        except Exception:
            return Known({}, {}, (), self._constants)
        return Known(values, pool(texts), self._helpers, self._constants)

    def _said(self, edit: Edit, before: Any) -> str:
        place = self._source.place(getattr(before, "lineno", getattr(edit.site.parent, "lineno", 1)))
        old, new = (ast.unparse(ast.fix_missing_locations(_located(node, before))) for node in (before, edit.node))
        if _TRANSPOSED not in old:
            new = new.replace(_TRANSPOSED, ".mT")  # shorter, where it is not the user's own spelling
        old, new = _short(old), _short(new)
        what = f"`{old}` should be `{new}`" if new != "pass" else f"`{old}` should not be there"
        return f"{edit.cause}: {place}: {what}"


def _has_value(node: ast.AST) -> bool:
    """Whether a node is an expression of its own: not a target, and no slices."""
    if not isinstance(node, ast.expr) or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return False
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return not any(isinstance(part, ast.Slice | ast.Starred) for part in parts)


def _short(text: str) -> str:
    text = text.replace("__import__('numpy')", "np")
    return text if len(text) <= 100 else f"{text[:48]} … {text[-48:]}"


def _located(node: Any, at: Any) -> Any:
    return ast.fix_missing_locations(ast.copy_location(node, at)) if hasattr(at, "lineno") else node
