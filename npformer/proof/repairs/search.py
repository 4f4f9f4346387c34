"""Finds the mistake in a wrong backward by undoing it: one small change of its source that makes it right.

The source of the backward is changed in one place at a time (``edits.py``), run on the forward's cache, and
compared with the true gradients. A change that makes every wrong tensor right, for several upstream gradients, reveals
the mistake and its line. A change that makes some tensors right and does not change the others is the first of
several causes; the search for the next one continues in the changed source. A function with unbounded loops is not
changed, since it might never return.
"""

from __future__ import annotations

import ast
import copy
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.proof.measures import largest, max_abs
from npformer.proof.oracles import Upstream
from npformer.proof.repairs.edits import edits
from npformer.proof.repairs.nodes import Edit, Known, sites
from npformer.proof.repairs.source import Source, constants_of, helpers_of, pool, source_of, variables_of
from npformer.proof.subject import PairSubject, Subject
from npformer.proof.symmetric import SymmetricSubject
from npformer.typing import HostArray

#: Relative to a tensor's largest entry: gradients this near count as equal.
AGREES = 1e-7
MOST_EDITS = 8_000
MOST_CAUSES = 2


class Repair(NamedTuple):
    """A change that makes tensors right, and the mistake that it reveals."""

    cause: str
    text: str
    fixes: frozenset[str]


class _Run(NamedTuple):
    """A backward's arguments, and the true gradients."""

    dy: Any
    cache: Any
    truth: Mapping[str, HostArray]


def repairs_of(
    subject: Subject, upstreams: Sequence[Upstream], truths: Sequence[Mapping[str, HostArray]], wrong: Sequence[str]
) -> list[Repair]:
    """The changes that make the wrong tensors right, one or two; none if there is no source, or none is found."""
    symmetric = subject.which if isinstance(subject, SymmetricSubject) else frozenset()
    checked = subject.inner if isinstance(subject, SymmetricSubject) else subject
    if not isinstance(checked, PairSubject):
        return []
    source = source_of(checked.backward)
    if source is None or not wrong or source.may_run_for_ever:
        return []
    try:
        runs = [_Run(*checked.call(upstream), truth) for upstream, truth in zip(upstreams, truths, strict=True)]
        copy.deepcopy(runs[0].cache)
    except Exception:
        return []  # a cache that cannot be copied allows no repeated runs
    search = _Search(checked, source, runs, symmetric)
    found: list[Repair] = []
    left = set(wrong)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while left and len(found) < MOST_CAUSES:
            repair = search.first(left)
            if repair is None:
                break
            found.append(repair)
            left -= repair.fixes
    return found


class _Search:
    def __init__(self, checked: PairSubject, source: Source, runs: list[_Run], symmetric: Collection[str]) -> None:
        self._checked, self._source, self._runs, self._symmetric = checked, source, runs, symmetric
        self._constants = constants_of(checked.forward)
        self._helpers = helpers_of(checked.forward, source)

    def first(self, wrong: set[str]) -> Repair | None:
        """The first change that makes all of these right; else the first that makes most of them so."""
        definition = self._source.definition
        best: tuple[Repair, Edit] | None = None
        for _, edit in zip(range(MOST_EDITS), edits(definition, self._known()), strict=False):
            before = edit.site.get()
            fixes = self._tried(edit, wrong)
            if not fixes or (best is not None and len(fixes) <= len(best[0].fixes)):
                continue
            best = Repair(edit.cause, self._said(edit, before), frozenset(fixes)), edit
            if fixes == wrong:
                break
        if best is None:
            return None
        repair, edit = best
        edit.site.put(_located(edit.node, edit.site.get()))  # the search continues in the changed source
        ast.fix_missing_locations(self._source.tree)
        return repair

    def _tried(self, edit: Edit, wrong: set[str]) -> set[str]:
        """The wrong tensors that the change makes right; empty if it makes another one wrong."""
        before = edit.site.get()
        edit.site.put(_located(edit.node, before))
        try:
            function = self._built()
            fixes = self._right(function, self._runs[0], wrong)
            for run in self._runs[1:]:
                fixes = fixes and fixes & self._right(function, run, wrong)
            return fixes
        except Exception:
            return set()
        finally:
            edit.site.put(before)

    def _right(self, function: Callable[..., Any], run: _Run, wrong: set[str]) -> set[str]:
        found = self._checked.inputs.named(function(copy.deepcopy(run.dy), copy.deepcopy(run.cache)))
        most = largest(run.truth.values())
        fixes = set()
        for name, truth in run.truth.items():
            gradient = found[name]
            if name in self._symmetric:
                gradient = (gradient + np.swapaxes(gradient, -1, -2)) / 2
            scale = max(max_abs(truth), 1e-3 * most)
            is_right = gradient.shape == truth.shape and bool(np.all(np.abs(gradient - truth) <= AGREES * scale))
            if is_right and name in wrong:
                fixes.add(name)
            elif not is_right and name not in wrong:
                return set()
        return fixes

    def _built(self) -> Any:
        names = dict(self._source.names)
        exec(compile(self._source.tree, "<a change of backward>", "exec"), names)
        return names[self._source.definition.name]

    def _known(self) -> Known:
        """Run the function once and record every expression's value."""
        values: dict[int, Any] = {}
        texts: dict[str, Any] = {}
        by_number: list[ast.expr] = []

        def seen(number: int, value: Any) -> Any:
            node = by_number[number]
            if id(node) not in values and isinstance(value, np.ndarray | np.generic | int | float):
                values[id(node)] = copy.copy(value) if isinstance(value, np.ndarray) else value
                texts.setdefault(ast.unparse(node), values[id(node)])
            return value

        tree = self._source.tree
        twin = copy.deepcopy(tree)
        originals, copies = (sites(each.body[0]) for each in (tree, twin) if isinstance(each.body[0], ast.FunctionDef))
        for original, site in reversed(list(zip(originals, copies, strict=True))):
            node = original.get()
            if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                by_number.append(node)
                inner = site.get()
                if isinstance(inner, ast.Slice | ast.Starred) or _holds_slice(inner) or site.field in ("keywords",):
                    continue
                call = ast.Call(ast.Name("_seen_", ast.Load()), [ast.Constant(len(by_number) - 1), inner], [])
                site.put(ast.copy_location(call, inner))
        names = self._source.names | {"_seen_": seen}
        try:
            exec(compile(ast.fix_missing_locations(twin), "<backward, noted>", "exec"), names)
            run = self._runs[0]
            function = names[self._source.definition.name]
            texts |= variables_of(function, copy.deepcopy(run.dy), copy.deepcopy(run.cache))
        except Exception:
            return Known({}, {}, (), self._constants)
        return Known(values, pool(texts), self._helpers, self._constants)

    def _said(self, edit: Edit, before: Any) -> str:
        line = self._source.first + getattr(before, "lineno", getattr(edit.site.parent, "lineno", 1)) - 1
        old, new = (
            _short(ast.unparse(ast.fix_missing_locations(_located(node, before)))) for node in (before, edit.node)
        )
        what = f"`{old}` should be `{new}`" if new != "pass" else f"`{old}` should not be there"
        return f"{edit.cause}: line {line} of {self._source.function.__name__}: {what}"


def _holds_slice(node: ast.AST) -> bool:
    return isinstance(node, ast.Tuple) and any(isinstance(part, ast.Slice | ast.Starred) for part in node.elts)


def _short(text: str) -> str:
    text = text.replace("__import__('numpy')", "np").replace(".swapaxes(-1, -2)", ".mT")
    return text if len(text) <= 100 else f"{text[:48]} … {text[-48:]}"


def _located(node: Any, at: Any) -> Any:
    return ast.fix_missing_locations(ast.copy_location(node, at)) if hasattr(at, "lineno") else node
