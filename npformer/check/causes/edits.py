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
from collections.abc import Callable, Iterator, Sequence

from npformer.check.causes.additions import (
    ADDITIONS,
    EXCHANGES,
    IN_KERNELS,
    INVENTIONS,
    Addition,
    Here,
    unused_in_products,
    unused_names,
)
from npformer.check.causes.inverse import CHANGES, FIRST, FIRST_IN_KERNELS, REST_IN_KERNELS
from npformer.check.causes.mutants import called, elements
from npformer.check.causes.nodes import Found, Known, Site, TreeEdit, is_real, is_value, sites

Edits = Callable[[ast.FunctionDef, Known], Iterator[TreeEdit]]


def _of_changes(kinds: Sequence[Callable[[Site, Known], Found]]) -> Edits:
    return lambda function, known: _changes(_sites(function, known), known, kinds)


def _of_additions(kinds: Sequence[Addition]) -> Edits:
    return lambda function, known: _additions(_sites(function, known), known, kinds)


#: The simple changes, tried in every function of the user's before the inventions, which build new expressions.
#: Of one kind, those where a value is made come before its return.
SIMPLE = (_of_changes(FIRST), _of_additions(EXCHANGES), _of_changes(CHANGES), _of_additions(ADDITIONS))
INVENTED = _of_additions(INVENTIONS)
#: Of what a function computes and never uses, where a run is slow.
UNUSED = _of_additions((unused_names, unused_in_products))
#: The same for kernels and what launches them, in another order.
WITH_KERNELS = (
    UNUSED, _of_changes(FIRST_IN_KERNELS), _of_additions(EXCHANGES), *map(_of_additions, IN_KERNELS),
    _of_changes(REST_IN_KERNELS),
)  # fmt: skip


def _changes(
    everywhere: Sequence[Site], known: Known, kinds: Sequence[Callable[[Site, Known], Found]]
) -> Iterator[TreeEdit]:
    for kind in kinds:
        for site in everywhere:
            if known.with_kernels and site in known.idle:
                continue
            for cause, node in kind(site, known):
                yield TreeEdit(cause, site, node)
                if isinstance(site.get(), ast.Constant) and (also := known.twins(site)):
                    yield TreeEdit(cause, site, node, also)  # the constant wherever it stands


def _additions(everywhere: Sequence[Site], known: Known, kinds: Sequence[Addition]) -> Iterator[TreeEdit]:
    values = [(site, known.at(site)) for site in everywhere if is_value(site, known) and site not in known.idle]
    places = [Here(site, value, ast.unparse(node), known) for site, (node, value) in values if is_real(value)]
    if known.with_kernels:  # what a kernel's sums lack could be added before and after them: here, where they are used
        places.sort(key=lambda here: (_is_stored(here.site), -getattr(here.site.get(), "lineno", 0)))
    for kind in kinds:
        for here in places:
            for cause, text in kind(here):
                yield TreeEdit(cause, here.site, text)


def _sites(function: ast.FunctionDef, known: Known) -> list[Site]:
    """All places, names that are returned as they are last: their mistake is mostly where they were made."""
    values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
    returned = {id(part) for value in values for part in elements(value) if isinstance(part, ast.Name)}
    places = [site for site in sites(function) if not known.with_kernels or _is_number(site, known)]
    return sorted(places, key=lambda site: id(site.get()) in returned)


def _is_stored(site: Site) -> bool:
    """Whether it is a name that a kernel stores: its mistake is mostly where it was made."""
    return isinstance(site.get(), ast.Name) and isinstance(site.parent, ast.Call) and called(site.parent) == "store"


def _is_number(site: Site, known: Known) -> bool:
    """Whether what is here is no address, and part of none: a number, a statement, or without a value of its own."""
    node, value = known.at(site)
    return isinstance(node, ast.stmt | ast.Constant | ast.keyword) or is_real(value) or id(node) not in known.values
