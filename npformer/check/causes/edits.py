"""Small changes of a function's syntax tree that would undo the mistakes people make in a backward pass.

Each replaces one node by another, and names the mistake that it undoes:

    sign             a → −a, a + b ↔ a − b, a − b → b − a        swapped outputs   return a, b → return b, a
    extra term       a + b → a                                   missing term      a → a + t, a − t
    extra factor     a·b → a, a/b → a                            missing factor    a → a·v, a/v, a @ v, v @ a
    wrong factor     v → w, 1 − v, a·b ↔ a/b, a/b → b/a          wrong constant    c → 2c, c ± 1, a number of forward
    transposed       a → aᵀ and back, a @ b → b @ a              reshaped          a → a with an axis turned round
    summed axis      another axis, sum ↔ mean, a sum more        wrong branch      a < b → a > b, where(c, a, b)
    wrong place      i → i ± 1, x[1:] → x[:-1], v[0] → v[:, None]  not accumulated x[i] = v → x[i] += v, add.at

t, v and w are names and expressions of the function itself, chosen by their shapes during a run, those first that it
computes and never uses. t may also be a product, or a mean or a sum over the last axis, as norms and softmax take them
off: a − mean(a) − b·mean(a·b). Cheap changes come first.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from npformer.check.causes.inverse import CHANGES, FIRST, FIRST_IN_KERNELS, REST_IN_KERNELS, cuts
from npformer.check.causes.mutants import called, elements
from npformer.check.causes.nodes import (
    Found,
    Here,
    Known,
    Site,
    TreeEdit,
    fits,
    is_mask,
    is_named,
    is_real,
    parsed,
    sites,
)
from npformer.typing import Shape

#: The most names of which projections are made.
MOST_NAMES = 5
_LAST = "axis=-1, keepdims=True"
_NP = "__import__('numpy')"
_SIGMOID = f"1 / (1 + {_NP}.exp(-{{0}}))"
#: Functions of an array that are common factors in derivatives.
_DERIVED = ("(1 - {0})", "(1 - {0} ** 2)", "({0} > 0)", "(1 + {0})", f"{_NP}.sign({{0}})", f"{_NP}.exp({{0}})",
            f"{_NP}.cos({{0}})", f"{_NP}.sin({{0}})", "({0} * (1 - {0}))", "({0} ** 2)", "({0} ** -2)",
            f"({_SIGMOID})")  # fmt: skip
_FUNCTIONS = ("{0} ** 2", "{0} ** 0.5", "{0} ** 3", "1 / {0}", "1 - {0}", f"{_NP}.sign({{0}})", "abs({0})",
              f"{_NP}.exp({{0}})", f"{_NP}.conj({{0}})", _SIGMOID)  # fmt: skip

Texts = Iterator[tuple[str, str]]


def factors(here: Here) -> Texts:
    """A number or an array of the pool, multiplied, divided or matrix-multiplied."""
    for text, v in here.others() if here.is_operand else ():
        for spelled, op in itertools.product(_broadcast(text, np.shape(v), here.shape), "*/"):
            yield "missing factor" if np.ndim(v) else "factor", f"({here.text}) {op} {spelled}"
        if len(here.shape) >= 2 and np.ndim(v) == 2:
            for array in (f"({text})", f"({text}).swapaxes(-1, -2)"):
                yield "missing factor", f"({here.text}) @ {array}"
                yield "missing factor", f"{array} @ ({here.text})"
    rests = [f"{op} (1 - {number})" for number in here.numbers() for op in "*/"]  # of a rate
    own = [f"{op} {number!r}" for number in here.known.constants if number not in (0, 1, 2, 3) for op in "*/"]
    for scaled in ("* 2", "* 0.5", "* 3", *own, *rests) if here.is_operand else ():
        yield "factor", f"({here.text}) {scaled}"


def derived_factors(here: Here) -> Texts:
    """A function of an array of the pool, multiplied."""
    for name in here.arrays() if here.is_operand else ():
        for spelled in _broadcast(name, np.shape(here.known.pool[name]), here.shape):
            for derived in _DERIVED:
                yield "missing factor", f"({here.text}) * {derived.format(spelled)}"


def _broadcast(text: str, shape: Shape, to: Shape) -> list[str]:
    """The array in forms that broadcast with the other shape: unchanged, or with axes appended."""
    with contextlib.suppress(ValueError):
        np.broadcast_shapes(shape, to)
        return [f"({text})"]
    starts = [i for i in range(len(to) - len(shape) + 1) if shape and to[i : i + len(shape)] == shape]
    return [f"({text})[..., {', '.join(['None'] * (len(to) - len(shape) - i))}]" for i in starts]


def functions(here: Here) -> Texts:
    """A function applied to an existing value."""
    for derived in _FUNCTIONS:
        yield "wrong factor", derived.format(f"({here.text})")


def _added(here: Here, terms: Iterable[tuple[str, Shape]]) -> Texts:
    for text, shape in terms:
        for op in "+-" if fits(shape, here.shape) else "":
            yield "missing term", f"({here.text}) {op} {text}"


def names_added(here: Here) -> Texts:
    if here.takes_terms:
        yield from _added(here, ((n, here.shape) for n in here.arrays() if np.shape(here.known.pool[n]) == here.shape))


def terms(here: Here) -> Texts:
    """An expression or a small number, such as an ε of the forward."""
    if here.is_operand:
        small = [repr(number) for number in here.known.constants if 0 < abs(number) < 1e-2]
        fitting = [(f"({text})", np.shape(v)) for text, v in here.others()]
        yield from _added(here, [*fitting, *((number, ()) for number in (*small, "1", "1.0"))])


def products(here: Here) -> Texts:
    if here.takes_terms:
        yield from _added(here, here.known.products)


def unused_names(here: Here) -> Texts:
    """A name that is not used yet, times a number of the pool, times 1, 2 or 1/2; a number as a factor."""
    numbers = [name for name in here.numbers() if name in here.known.unused] if here.is_operand else []
    yield from (("factor", f"({here.text}) {op} {number}") for number in numbers for op in "*/")
    yield from _with_numbers(
        here, [(n, np.shape(here.known.pool[n])) for n in here.known.unused if n in here.known.pool]
    )


def unused_in_products(here: Here) -> Texts:
    """The same of its product with another name."""
    yield from _with_numbers(
        here, [product for product in here.known.products if any(n in product[0] for n in here.known.unused)]
    )


def _with_numbers(here: Here, terms: list[tuple[str, Shape]]) -> Texts:
    terms = [term for term in terms if term[1] or here.known.with_kernels]  # a kernel's row sums are numbers
    is_place = here.takes_terms or (here.is_read and here.is_operand)
    kinds = itertools.product(terms, ("1", *here.numbers()), ("1", "2", "0.5")) if is_place else ()
    for (text, shape), *numbers in kinds:
        yield from _added(here, [(" * ".join([*(n for n in numbers[::-1] if n != "1"), text]), shape)])


def projections(here: Here) -> Texts:
    """What a norm or a softmax takes off: a mean or a sum over the last axis of a name or of a product of two.

    With a name as a factor, too, and both terms of a norm: a − mean(a), a − sum(a·b), a − b·mean(a·b),
    a − mean(a) − b·mean(a·b).
    """
    text, is_place = here.text, here.takes_terms or isinstance(here.node, ast.Name)
    if not is_place or not here.shape or here.shape[-1] < 2:
        return
    alike = [name for name, v in here.known.pool.items() if np.shape(v) == here.shape and not is_mask(v)]
    names = [name for name in alike if is_named(name)][:MOST_NAMES]
    for name in names if text in names else ():
        yield "missing term", f"{text} - {text}.mean({_LAST}) - {name} * ({text} * {name}).mean({_LAST})"
    inner = [*names, *(f"({a} * {b})" for a, b in itertools.combinations_with_replacement(names, 2))]
    for part, mean in itertools.product(inner, ("mean", "sum")):
        taken = f"{part}.{mean}({_LAST})"
        factors = ["", *(f"{name} * " for name in names if name in part.strip("()").split(" * "))]
        yield from _added(here, [(f"{factor}{taken}", here.shape) for factor in factors])


def names(here: Here) -> Texts:
    """Another array in the place of one, what it lacks to 1, or 1; a number of the forward in the place of a number."""
    if here.is_read and not here.shape:
        yield from (("wrong constant", repr(number)) for number in here.known.constants if not here.is_twin(number))
    if here.is_read:
        named = [(text, np.shape(v)) for text, v in here.others() if is_named(text) and not here.is_twin(v)]
        same = [text for text, shape in named if shape == here.shape]
        more = [text for text, shape in named if shape != here.shape and len(shape) == len(here.shape)]
        yield from (("wrong factor", text) for text in (*same, f"1 - {here.text}", "1", *more))


def sums(here: Here) -> Texts:
    axes = [*range(len(here.shape)), *itertools.combinations(range(len(here.shape)), 2)]
    for axis, name in itertools.product(axes, ("sum", "mean")):
        yield "summed axis", f"({here.text}).{name}(axis={axis}, keepdims=True)"


#: Takes a place, and gives pairs (mistake, what should stand there instead).
Change = Callable[[Here], Found]
Edits = Callable[[ast.FunctionDef, Known], Iterator[TreeEdit]]


def _of_changes(*kinds: Change) -> Edits:
    """Changes of any place, of kernels where it matters."""

    def edits(function: ast.FunctionDef, known: Known) -> Iterator[TreeEdit]:
        places = _places(function, known)
        return _made([here for here in places if here.site not in known.idle or not known.with_kernels], kinds)

    return edits


def _of_additions(*kinds: Change) -> Edits:
    """Changes of places with real numbers on which a wrong tensor depends."""

    def edits(function: ast.FunctionDef, known: Known) -> Iterator[TreeEdit]:
        places = [here for here in _places(function, known) if here.is_value and here.site not in known.idle]
        places = [here for here in places if is_real(here.value) and not is_mask(here.value)]
        if known.with_kernels:  # what a kernel's sums lack could be added before and after them: where they are used
            places.sort(key=lambda here: (_is_stored(here.site), -getattr(here.node, "lineno", 0)))
        return _made(places, kinds)

    return edits


def _made(places: Sequence[Here], kinds: Sequence[Change]) -> Iterator[TreeEdit]:
    for kind, here in itertools.product(kinds, places):
        for cause, node in kind(here):
            yield TreeEdit(cause, here.site, node)
            if isinstance(here.node, ast.Constant) and (also := here.known.twins(here.site)):
                yield TreeEdit(cause, here.site, node, also)  # the constant wherever it stands


#: Of what a function computes and never uses.
UNUSED = _of_additions(unused_names, unused_in_products)
#: Other names, or these added, which is cheap.
EXCHANGED = _of_additions(names, names_added)
#: The simple changes, tried in every function of the user's; the last add a value of the function. Of one kind, those
#: where a value is made come before its return.
SIMPLE = (
    _of_changes(*FIRST), _of_additions(unused_names), EXCHANGED, _of_changes(*CHANGES),
    _of_additions(unused_names, functions, factors, products, terms),
)  # fmt: skip
#: Tried after them: inventions, which build new expressions.
INVENTED = _of_additions(unused_in_products, projections, derived_factors, sums)
#: Of what a library differentiates.
CUTS = _of_changes(cuts)
#: The same for kernels and what launches them, in another order.
WITH_KERNELS = (
    UNUSED, _of_changes(*FIRST_IN_KERNELS), EXCHANGED, _of_additions(factors, products),
    _of_additions(projections, functions, derived_factors, terms, sums), _of_changes(*REST_IN_KERNELS),
)  # fmt: skip


def bound(function: ast.FunctionDef, known: Known) -> Iterator[TreeEdit]:
    """A variable of a loop around a closure, kept as it is when that is made: lambda dy: … → lambda dy, W=W: …"""
    for node in ast.walk(function):
        if not isinstance(node, ast.Lambda | ast.FunctionDef) or node is function:
            continue
        names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
        own = {a.arg for a in node.args.args} | {n.id for n in names if isinstance(n.ctx, ast.Store)}
        free = sorted({n.id for n in names} - own)
        for kept in [*([name] for name in free), *([free] if free else [])]:
            more = parsed(f"lambda {', '.join(f'{name}={name}' for name in kept)}: 0")
            changed = copy.deepcopy(node.args)
            changed.args += more.args.args
            changed.defaults += more.args.defaults
            yield TreeEdit("late binding", Site(node, "args", None), changed)


def _places(function: ast.FunctionDef, known: Known) -> list[Here]:
    """All places, names that are returned as they are last: their mistake is mostly where they were made."""
    values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
    returned = {id(part) for value in values for part in elements(value) if isinstance(part, ast.Name)}
    places = [Here(site, known) for site in sites(function)]
    places = [here for here in places if not known.with_kernels or _is_number(here)]
    return sorted(places, key=lambda here: id(here.node) in returned)


def _is_stored(site: Site) -> bool:
    """Whether it is a name that a kernel stores: its mistake is mostly where it was made."""
    return isinstance(site.get(), ast.Name) and isinstance(site.parent, ast.Call) and called(site.parent) == "store"


def _is_number(here: Here) -> bool:
    """Whether what is here is no address, and part of none: a number, a statement, or without a value of its own."""
    is_other = isinstance(here.node, ast.stmt | ast.Constant | ast.keyword) or id(here.node) not in here.known.values
    return is_other or is_real(here.value)
