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

from npformer.check.diagnosis.mutants import elements
from npformer.check.repairs.additions import ADDITIONS, EXCHANGES, INVENTIONS, Addition, Here
from npformer.check.repairs.inverse import CHANGES, FIRST
from npformer.check.repairs.nodes import Edit, Found, Known, Site, is_real, is_value, sites


def edits(function: ast.FunctionDef, known: Known) -> Iterator[Edit]:
    """The simple changes, tried in every function of the user's before the inventions.

    Of one kind, those where a value is made come before its return.
    """
    everywhere = _sites(function)
    yield from _changes(everywhere, known, FIRST)
    yield from _additions(everywhere, known, EXCHANGES)
    yield from _changes(everywhere, known, CHANGES)
    yield from _additions(everywhere, known, ADDITIONS)


def inventions(function: ast.FunctionDef, known: Known) -> Iterator[Edit]:
    """The changes that build new expressions."""
    yield from _additions(_sites(function), known, INVENTIONS)


def _changes(
    everywhere: Sequence[Site], known: Known, kinds: Sequence[Callable[[Site, Known], Found]]
) -> Iterator[Edit]:
    for kind in kinds:
        for site in everywhere:
            for cause, node in kind(site, known):
                yield Edit(cause, site, node)
                if isinstance(site.get(), ast.Constant) and (also := known.twins(site)):
                    yield Edit(cause, site, node, also)  # the constant wherever it stands


def _additions(everywhere: Sequence[Site], known: Known, kinds: Sequence[Addition]) -> Iterator[Edit]:
    values = [(site, known.at(site)) for site in everywhere if is_value(site, known) and site not in known.idle]
    places = [Here(site, value, ast.unparse(node), known) for site, (node, value) in values if is_real(value)]
    for kind in kinds:
        for here in places:
            for cause, text in kind(here):
                yield Edit(cause, here.site, text)


def _sites(function: ast.FunctionDef) -> list[Site]:
    """All places, names that are returned as they are last: their mistake is mostly where they were made."""
    values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
    returned = {id(part) for value in values for part in elements(value) if isinstance(part, ast.Name)}
    return sorted(sites(function), key=lambda site: id(site.get()) in returned)
