"""Finds the mistake in a wrong backward by undoing it: one small change of its source that makes it right.

The source of the backward, and that of each function of the user's that runs in it, is changed in one place at a
time (``edits.py``), run on the forward's cache, and compared with the true gradients. A change reveals the mistake and
its line if the check itself calls every wrong tensor right with it, here and at other points (``elsewhere.py``). One
that makes some tensors right and does not spoil the others is the first of several causes; the search for the next one
continues in the changed source.

The verdict's limit is one of a tensor's size, and some errors are hardly larger: a change that hides one among larger
numbers meets the limit, too. What undoes the mistake leaves nothing of the error, so a share of it is the limit here.

A search is bounded in changes and in time, and each change in memory and in the lines that it runs.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import chain, islice
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from npformer.check.behaviour import counted_lines
from npformer.check.causes.edits import INVENTED, SIMPLE, UNUSED, WITH_KERNELS
from npformer.check.causes.mutants import elements
from npformer.check.causes.nodes import SCOPES, Known, Site, TreeEdit, has_scope, is_real, located, parsed, sites
from npformer.check.causes.source import (
    Source,
    constants_of,
    named_numbers,
    parts_of,
    pool,
    twins_in,
    unused_in,
)
from npformer.check.causes.spelling import Spelling
from npformer.check.causes.trial import Trial
from npformer.check.checkable import as_numpy
from npformer.check.measures import largest, max_abs
from npformer.check.report import WRONG
from npformer.check.subject import Subject, Upstream
from npformer.io.progress_bar import Bar
from npformer.io.seconds import now
from npformer.typing import HostArray, HostArrays, Tensors, Values

#: The most changes that are tried, and for how long; after a moment with a bar.
MOST_CHANGES, SECONDS, SECONDS_WITH_KERNELS, MOMENT = 150_000, 10.0, 30.0, 2.0

#: Bytes beyond what the process has when a search begins; and of the lines that run without a change, with one.
MOST_BYTES, TIMES_LINES, MORE_LINES = 1 << 30, 100, 10_000
#: Relative to a tensor's largest entry: gradients this near are worth a verdict, if they are nearer than before.
AGREES = 1e-7
#: What may be left of an error: a share, or rounding; a larger share where the truth is from differences.
LEFT, ROUNDING, LEFT_BY_DIFFERENCES = 1e-4, 1e-12, 0.5
MOST_CAUSES = 2
#: The most functions that are searched: methods of an object, and functions that one of them calls.
MOST_FUNCTIONS, MOST_THAT_RAN = 4, 12
_HERE = "'_here_'"  # a constant in whose place a function is put


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """Within this context an allocation beyond MOST_BYTES raises MemoryError, where the system can."""
    try:
        import resource

        with open("/proc/self/statm") as held:
            used = int(held.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = used + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most if soft == resource.RLIM_INFINITY else min(most, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class SearchBudget:
    """Counts the changes and the time; draws a bar on a terminal."""

    def __init__(self, kept: contextlib.ExitStack) -> None:
        self._began, self._kept, self.tried, self.seen = now(), kept, 0, 0
        self._bar: Bar | None = None
        self.is_left, self.with_kernels = True, False

    @property
    def seconds(self) -> float:
        """The most."""
        return SECONDS_WITH_KERNELS if self.with_kernels else SECONDS

    def taken(self) -> float:
        return now() - self._began

    def allows_one(self) -> bool:
        """Whether one more change is tried."""
        self.seen += 1
        self.is_left = self.is_left and self.tried < MOST_CHANGES and self.taken() < self.seconds
        if not self.is_left:
            return False
        if self.taken() > MOMENT:
            self._bar = self._bar or self._kept.enter_context(Bar("looking for the cause", MOST_CHANGES, sys.stderr))
            self._bar.reach(self.tried)
        self.tried += 1
        return True


class Repair(NamedTuple):
    """A change that makes tensors right, and the mistake that it reveals."""

    cause: str
    place: str  # the line, what it says and what it should say
    fixes: frozenset[str]
    edit: TreeEdit
    search: _Search


class SearchTarget(NamedTuple):
    """The point of a check, and others where a change must hold as well."""

    subject: Subject
    upstreams: Sequence[Upstream]
    truths: Sequence[Tensors]  # the gradients for each, or along directions
    directions: Mapping[str, Sequence[HostArray]]
    exact: Container[str]  # the tensors whose gradients are true to rounding
    others: Callable[[], Sequence[Subject]]
    verdicts: Callable[[Subject], Mapping[str, str]]
    hints: Sequence[str] = ()  # expressions that may be missing, of a declared gradient's backward
    is_whole: Callable[[], bool] = lambda: True  # whether the backward as it is now owes nothing that it did not before


def repairs_of(
    point: SearchTarget, wrong: Sequence[str], trials: Sequence[Trial], is_brief: bool = False
) -> tuple[list[Repair], list[str]]:
    """The changes that make the wrong tensors right, one or two; and remarks if tensors are left.

    The remarks are hints, and say how many changes were tried. trials: the functions that may be at fault. is_brief:
    only simple changes are tried.
    """
    mains = [(trial, source) for trial in trials if (source := trial.source)][:MOST_THAT_RAN]
    repairs, left = list[Repair](), set(wrong)
    with np.errstate(all="ignore"), warnings.catch_warnings(), contextlib.ExitStack() as kept:
        warnings.simplefilter("ignore")
        budget = SearchBudget(kept)
        kept.enter_context(bounded_memory())
        while left and len(repairs) < MOST_CAUSES:
            searches = _searches(mains, point)
            budget.with_kernels = any(search.is_of_kernel for search in searches)
            best = _best(searches, left, budget, is_brief)
            if best is None:
                break
            kept.enter_context(best.search.keep(best.edit))
            repairs.append(best)
            left -= best.fixes
    if not left:
        return repairs, []
    hints = [f"`{name}` is computed and never used in {s.name}" for _, s in mains for name in unused_in(s)]
    if budget.tried:
        of = f" of {budget.seen:,}" if budget.tried < budget.seen else ""
        tried = f"{budget.tried:,}{of} changes of its source were tried, in {budget.taken():.1f} s"
        return repairs, [*hints[:3], tried]
    return repairs, hints[:3]


def none_returned(trials: Sequence[Trial]) -> Iterator[str]:
    """The places at which a backward returns None for one of several gradients."""
    for source in filter(None, (trial.source for trial in trials)):
        for node in ast.walk(source.definition):
            match node:
                case ast.Return(ast.Tuple(parts)) if any(ast.unparse(part) == "None" for part in parts):
                    yield f"it is None where it is returned: {source.place(node.lineno)}"


def _best(searches: Sequence[_Search], wrong: set[str], budget: SearchBudget, is_brief: bool) -> Repair | None:
    """The first change that makes all of these right; else the first that makes most of them so."""
    best: Repair | None = None
    only = [(search.only, search) for search in searches if search.only is not None]
    searches = [search for search in searches if search.only is None]
    # Inventions begin in the functions that it calls: what these lack could be added to their results, too.
    stages = [(kinds, search) for kinds in SIMPLE for search in searches]
    stages += [(INVENTED, search) for search in searches[::-1] if not is_brief]
    if any(search.is_slow for search in searches):
        stages = [(UNUSED, search) for search in searches[::-1]] + stages
    if budget.with_kernels:
        stages = [(kinds, search) for kinds in WITH_KERNELS for search in searches[::-1]]
    for kinds, search in only + stages:
        better = [*search.changes(kinds, wrong, budget, len(best.fixes) if best else 0)]
        best = better[-1] if better else best
        if best is not None and best.fixes == wrong:
            break
    return best


def _searches(mains: Sequence[tuple[Trial, Source]], point: SearchTarget) -> list[_Search]:
    """The functions to search."""
    searches, seen = [], set[Any]()
    for trial, main in mains:
        for source in (main, *islice(() if main.is_inner else main.callees(), MOST_FUNCTIONS)):
            search, place = _Search(trial, source, point), (source.function, source.definition.lineno, trial.edits)
            if place not in seen and search.runs():
                searches.append(search)
            seen.add(place)
    return searches


def _with_constant(code: CodeType, instead: Any) -> CodeType:
    """The code, and that of the functions inside it, with this in the place of _HERE."""
    consts = [instead if c == _HERE[1:-1] else _with_constant(c, instead) if isinstance(c, CodeType) else c
              for c in code.co_consts]  # fmt: skip
    return code.replace(co_consts=tuple(consts))


class OpenSource:
    """A function's source whose places can be watched, and changed."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._codes: dict[Site, CodeType] = {}
        scopes = [n for n in ast.walk(source.definition) if isinstance(n, SCOPES)][1:]
        self._inner = {id(node) for scope in scopes for node in ast.walk(scope)}

    def is_open(self, site: Site) -> bool:
        """Whether a place holds an expression that sees the function's variables: no target, no slices."""
        node = site.get()
        if not isinstance(node, ast.expr) or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return False
        is_whole = not any(isinstance(part, ast.Slice | ast.Starred) for part in elements(node))
        is_whole = is_whole and not isinstance(node, ast.Yield | ast.YieldFrom | ast.Await | ast.NamedExpr)
        return id(node) not in self._inner and is_whole

    def opened(self, site: Site, instead: Callable[[Values], Any]) -> CodeType:
        """The function's code that takes at this place what it is told for its variables."""
        if site not in self._codes:
            call = located(parsed(f"{_HERE}(locals())"), site.get())
            self._codes[site] = self.with_edit(TreeEdit("", site, ""), call)
        return _with_constant(self._codes[site], instead)

    def with_edit(self, edit: TreeEdit, node: Any) -> CodeType:
        before = [(site, site.get()) for site in (edit.site, *edit.also)]
        for site, _ in before:
            site.put(node)
        try:
            return self.source.code()
        finally:
            for site, old in before:
                site.put(old)


class _Search(OpenSource):
    """The changes of one function: the trial's own, or one that it calls."""

    def __init__(self, trial: Trial, source: Source, point: SearchTarget) -> None:
        super().__init__(source)
        self._trial, self._point = trial, point
        self._scope: Any = trial.scope or source.function.__globals__
        self._known: Known | None = None
        #: For each truth, how far each of its gradients may be off.
        self._slack = [
            {name: AGREES * max(max_abs(g), 1e-3 * largest(truth.values())) for name, g in truth.items()}
            for truth in point.truths
        ]
        self.only, self.is_slow, self.is_of_kernel = trial.edits, trial.library != "numpy", source.rewritten is not None
        self._matters = not self.is_of_kernel or self.only is not None  # whether a wrong tensor depends on it

    def runs(self) -> bool:
        """Whether the function can be run from its source; notes what it gives, and how far that is off."""
        try:
            with self.source.running(self.source.code()):
                self._first, lines = self._trial.run(0), Counter[Any]()
                with counted_lines(lines):
                    self._trial.run(0)
            is_loop = any(isinstance(node, ast.For | ast.While) for node in ast.walk(self.source.definition))
            has_loops = is_loop or max(lines.values(), default=0) > 1
            self._most_lines = TIMES_LINES * lines.total() + MORE_LINES if has_loops else 0
            self._off = {name: self._error(self._first, 0, name) for name in self._slack[0]}  # in units of the slack
        except Exception:
            return False
        return True

    def changes(self, kinds: Any, wrong: set[str], budget: SearchBudget, most: int) -> Iterator[Repair]:
        """The changes that make more of these right than most, and no other tensor wrong; up to one that makes all."""
        if self._known is None:  # the tensors that are wrong stay the same as long as this search is used
            self._known = self._looked(wrong, budget)
        changes = kinds(self.source.definition, self._known) if self._matters else ()
        spelled = (self._spelling.edits(change) if budget.is_left else [change] for change in changes)
        for edit in chain.from_iterable(spelled):
            if budget.allows_one() and (fixes := self._tried(edit, wrong, most)):
                yield Repair(edit.cause, self.source.sentence(edit), frozenset(fixes), edit, self)
                if fixes == wrong:
                    return
                most = len(fixes)

    @contextlib.contextmanager
    def keep(self, edit: TreeEdit) -> Iterator[None]:
        """Make this change: within this context the search for another cause continues in the changed source."""
        for site in (edit.site, *edit.also):
            site.put(copy.deepcopy(located(edit.node, site.get())))
        with self.source.running(self.source.code()):
            yield

    def _tried(self, edit: TreeEdit, wrong: set[str], most: int) -> set[str]:
        """The wrong tensors that the change makes right, if more than that; empty if it makes another one wrong."""
        fixes = set(wrong)
        try:
            code = self._changed(edit)
            for number in range(len(self._point.truths)):
                with self.source.running(code), self._bounded():
                    fixes = fixes and fixes & self._near(self._trial.run(number), number, wrong)
            if len(fixes) <= most:
                return set()
            for subject in (self._point.subject, *self._point.others()):
                with self.source.running(code):
                    verdicts = self._point.verdicts(subject)
                if any(verdict == WRONG for name, verdict in verdicts.items() if name not in wrong):
                    return set()
                fixes = {name for name in fixes if verdicts[name] != WRONG}
            with self.source.running(code):
                return fixes if fixes != wrong or self._point.is_whole() else set()
        except Exception:
            return set()

    def _bounded(self) -> contextlib.AbstractContextManager[None]:
        """A bound of the lines that run, for a change may make a loop long."""
        return counted_lines(Counter(), self._most_lines) if self._most_lines else contextlib.nullcontext()

    def _near(self, gradients: HostArrays, number: int, wrong: set[str]) -> set[str]:
        """The wrong tensors that are near the truth now; none if another one is farther from it than before."""
        shares = {name: LEFT if name in self._point.exact else LEFT_BY_DIFFERENCES for name in wrong}
        most = {name: min(1, max(share * self._off[name], ROUNDING / AGREES)) for name, share in shares.items()}
        fixes = {name for name in wrong if self._error(gradients, number, name) <= most[name]}
        others = self._slack[number].keys() - wrong if fixes else ()
        is_spoiled = any(not self._error(gradients, number, name) <= max(1, 2 * self._off[name]) for name in others)
        return set() if is_spoiled else fixes

    def _error(self, gradients: HostArrays, number: int, name: str) -> float:
        """The largest error of a gradient, in units of its slack."""
        gradient = self._point.subject.symmetric({name: gradients[name]})[name]
        truth = self._point.truths[number][name]
        if gradient.shape != self._point.subject.tensors[name].shape:
            return np.inf
        if name in self._point.directions:
            gradient = np.array([np.sum(gradient * direction) for direction in self._point.directions[name]])
        return max_abs(gradient - truth) / self._slack[number][name]

    def _changed(self, edit: TreeEdit) -> CodeType:
        """The function's code with a change. Of an expression, only the new one is compiled."""
        node = edit.node if isinstance(edit.node, str) else edit.placed
        is_expression = isinstance(node, str | ast.expr) and self.is_open(edit.site)
        if not is_expression or edit.also or has_scope(node):
            return self.with_edit(edit, edit.placed)
        new = compile(node if isinstance(node, str) else ast.Expression(node), "<a change>", "eval")
        return self.opened(edit.site, lambda variables: eval(new, self._scope, variables))

    def _looked(self, wrong: set[str], budget: SearchBudget) -> Known:
        """The values of a run of the function, and which places matter: a moved value moves wrong tensors alone."""
        values, texts, variables = dict[int, Any](), Values(), Values()
        idle, times = set[Site](), Counter[Site]()
        for site in () if self.only else filter(self.is_open, sites(self.source.definition)):
            code = compile(ast.Expression(site.get()), "<a value>", "eval")

            def here(local: Values, site: Site = site, code: Any = code) -> Any:
                node, value = site.get(), eval(code, self._scope, local)
                times[site] += 1
                held = as_numpy(value)
                if id(node) not in values and isinstance(held, np.ndarray | np.generic | int | float):
                    values[id(node)] = texts[ast.unparse(node)] = copy.copy(held)
                variables.update(local)
                return value * 1.37 + 0.013 if is_real(held) else value

            if budget.taken() > budget.seconds / 2:
                break
            with contextlib.suppress(Exception), self.source.running(self.opened(site, here)), self._bounded():
                moved = self._trial.run(0)
                touched = {name for name, gradient in moved.items() if not np.array_equal(gradient, self._first[name])}
                is_shared = times[site] == 1 and not touched <= wrong  # in a loop, its other values may be wrong
                idle |= {site} if is_shared or not touched else set()
                self._matters |= bool(touched & wrong)
        texts |= {name: as_numpy(x) for name, x in variables.items()} | parts_of(self.source, variables)
        for text in self._point.hints:
            with contextlib.suppress(Exception):
                texts[text] = as_numpy(eval(text, self._scope, variables))
        forward, unused = self._trial.forward, tuple(unused_in(self.source))
        texts |= {name: x for name, x in named_numbers(forward).items() if self.source.names.get(name) is x}
        kept, library = pool(texts, unused, self.is_of_kernel), "triton" if self.is_of_kernel else self._trial.library
        self._spelling = Spelling(library, self.source.names, kept)
        places = sites(self.source.definition)
        twins = twins_in(self.source, variables)
        return Known(values, kept, constants_of(forward), twins, unused, idle, places, budget.with_kernels)
