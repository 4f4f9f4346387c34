"""Additions to existing code: a factor, a term, a sum or a choice, made of the function's own values."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from npformer.proof.repairs.nodes import (
    Found,
    Known,
    Site,
    fits,
    is_mask,
    is_operand,
    kind_of,
    method,
    parsed,
    transposed,
)
from npformer.typing import Shape


def factors(site: Site, known: Known) -> Found:
    """A number or an array of the pool, multiplied, divided or matrix-multiplied."""
    node, value = known.at(site)
    if not is_operand(site) or kind_of(value) == "b":
        return
    shape = np.shape(value)
    for text, v in known.pool.items():
        if text == ast.unparse(node):
            continue
        spelled = _broadcast(text, np.shape(v), shape)
        if spelled:
            cause = "factor" if np.ndim(v) == 0 else "missing factor"
            for op in (ast.Mult(), ast.Div()):
                yield cause, ast.BinOp(node, op, parsed(spelled))
        if len(shape) >= 2 and np.ndim(v) == 2:
            for left, right in ((node, parsed(text)), (node, transposed(parsed(text))), (parsed(text), node),
                                (transposed(parsed(text)), node)):  # fmt: skip
                yield "missing factor", ast.BinOp(left, ast.MatMult(), right)
    for number in ("2", "0.5", "3"):
        yield "factor", ast.BinOp(node, ast.Mult(), parsed(number))


def derived_factors(site: Site, known: Known) -> Found:
    """A function of an array of the pool, multiplied."""
    node, value = known.at(site)
    if not is_operand(site) or is_mask(value):
        return
    for text, v in known.pool.items():
        spelled = _broadcast(text, np.shape(v), np.shape(value))
        if spelled and np.ndim(v) and not is_mask(v) and text.isidentifier() and text != ast.unparse(node):
            for derived in (*_DERIVED, *(f"{name}({{0}})" for name in known.helpers)):
                yield "missing factor", ast.BinOp(node, ast.Mult(), parsed(derived.format(spelled)))


def functions(site: Site, known: Known) -> Found:
    """A function applied to an existing value."""
    node, value = known.at(site)
    text = f"({ast.unparse(node)})"
    for derived in ("{0} ** 2", "{0} ** 0.5", "{0} ** 3", "1 / {0}", "1 - {0}", f"{_NP}.sign({{0}})",
                    f"{_NP}.exp({{0}})", f"{_NP}.conj({{0}})"):  # fmt: skip
        yield "wrong factor", parsed(derived.format(text))
    for name in known.helpers:
        yield "wrong factor", parsed(f"{name}{text}")
    if np.ndim(value) == 2 and np.shape(value)[0] == np.shape(value)[1]:
        yield "wrong factor", parsed(f"{_NP}.linalg.inv{text}")
    if np.ndim(value) == 2:
        yield "wrong branch", parsed(f"{_NP}.tril{text}")


def choices(site: Site, known: Known) -> Found:
    """One of two, by a mask of the pool."""
    node, value = known.at(site)
    if not is_operand(site) or is_mask(value) or not np.ndim(value):
        return
    names = [text for text, v in known.pool.items() if text.isidentifier() and not is_mask(v) and np.ndim(v)]
    masks = [text for text, v in known.pool.items() if is_mask(v) and fits(np.shape(v), np.shape(value))]
    masks += [f"({n} > 0)" for n in names if np.shape(known.pool[n]) == np.shape(value)]
    others = ["0", "1", f"-({ast.unparse(node)})"]
    others += [text for text, v in known.pool.items() if np.shape(v) == np.shape(value) and not is_mask(v)]
    for mask, other in itertools.product(masks[:6], others[:12]):
        for parts in ([parsed(mask), node, parsed(other)], [parsed(mask), parsed(other), node]):
            yield "wrong branch", ast.Call(parsed(f"{_NP}.where"), parts, [])


def terms_of_two(site: Site, known: Known) -> Found:
    """A product of two names, added to a sum or to an assigned or returned value."""
    node, value = known.at(site)
    if not _takes_terms(site) or is_mask(value):
        return
    for text, v in _products(known.pool):
        if fits(np.shape(v), np.shape(value)):
            yield from _added(node, text)


def _added(node: ast.expr, text: str) -> Found:
    """A term, added and subtracted."""
    for op in (ast.Add(), ast.Sub()):
        yield "missing term", ast.BinOp(node, op, parsed(text))


def _takes_terms(site: Site) -> bool:
    """Whether the place is part of a sum, an assigned or returned value, or a name."""
    is_in_sum = isinstance(site.parent, ast.BinOp) and isinstance(site.parent.op, ast.Add | ast.Sub)
    is_whole = isinstance(site.parent, ast.Assign | ast.AugAssign | ast.Return | ast.Tuple)
    return is_in_sum or is_whole or isinstance(site.get(), ast.Name)


def projections(site: Site, known: Known) -> Found:
    """What a norm or a softmax takes off: a mean or a sum over the last axis of a name or of a product of two.

    With a name as a factor, too, and both terms of a norm: a − mean(a), a − sum(a·b), a − b·mean(a·b),
    a − mean(a) − b·mean(a·b).
    """
    node, value = known.at(site)
    shape = np.shape(value)
    if not _takes_terms(site) or is_mask(value) or not shape or shape[-1] < 2:
        return
    alike = [text for text, v in known.pool.items() if np.shape(v) == shape and not is_mask(v)]
    names = [text for text in alike if all(part.isidentifier() for part in text.split("."))][:MOST_NAMES]  # x, self.x
    text = ast.unparse(node)
    for name in names if text in names else ():
        both = f"{text} - {text}.mean({_LAST}) - {name} * ({text} * {name}).mean({_LAST})"
        yield "missing term", parsed(both)
    products = [f"({a} * {b})" for a, b in itertools.combinations_with_replacement(names, 2)]
    for inner, mean in itertools.product([*names, *products], ("mean", "sum")):
        taken = f"{inner}.{mean}({_LAST})"
        for term in (taken, *(f"{name} * {taken}" for name in names if name in inner.strip("()").split(" * "))):
            for op in (ast.Sub(), ast.Add()):
                yield "missing term", ast.BinOp(node, op, parsed(term))


#: The most names of which projections are made.
MOST_NAMES = 5
_LAST = "axis=-1, keepdims=True"
_NP = "__import__('numpy')"
#: Functions of an array that are common factors in derivatives.
_DERIVED = ("(1 - {0})", "(1 - {0} ** 2)", "({0} > 0)", "(1 + {0})", f"{_NP}.sign({{0}})", f"{_NP}.exp({{0}})",
            f"{_NP}.cos({{0}})", f"{_NP}.sin({{0}})", "({0} * (1 - {0}))", "({0} ** 2)", "({0} ** -2)")  # fmt: skip


def _broadcast(text: str, shape: Shape, to: Shape) -> str:
    """The array in a form that broadcasts with the other shape: unchanged, or with appended axes."""
    if fits(shape, to):
        return text
    missing = len(to) - len(shape)
    if shape and missing > 0 and to[: len(shape)] == shape:
        return f"{text}[..., {', '.join(['None'] * missing)}]"
    return ""


def names(site: Site, known: Known) -> Found:
    """Another array of the same shape in its place."""
    node, value = known.at(site)
    if isinstance(node, ast.Name | ast.Subscript | ast.Attribute):
        for text, v in known.pool.items():
            if np.shape(v) == np.shape(value) and text != ast.unparse(node):
                yield "wrong factor", parsed(text)


def sums(site: Site, known: Known) -> Found:
    node, value = known.at(site)
    axes = [*range(np.ndim(value)), *itertools.combinations(range(np.ndim(value)), 2)]
    for axis, name in itertools.product(axes if kind_of(value) == "f" else (), ("sum", "mean")):
        yield "summed axis", method(node, name, axis=axis, keepdims=True)


def terms(site: Site, known: Known) -> Found:
    node, value = known.at(site)
    if is_operand(site) and kind_of(value) in "fiu":
        fitting = [text for text, v in known.pool.items() if fits(np.shape(v), np.shape(value))]
        for text in (*fitting, "1", "1.0"):
            yield from _added(node, text)


def _products(pool: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Products of two names: element by element, of matrices, and outer ones."""
    names = [(text, v) for text, v in pool.items() if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
    names = [(text, v) for text, v in names if text.replace("[", "").replace("]", "").isidentifier()]
    for (a, v), (b, w) in itertools.product(names, names):
        if a <= b and (fits(v.shape, w.shape) or fits(w.shape, v.shape)):
            yield f"{a} * {b}", v * w
        for left, x in ((a, v), (f"{a}.T", v.T)):
            for right, y in ((b, w), (f"{b}.T", w.T)):
                if x.ndim == y.ndim == 2 and x.shape[1] == y.shape[0]:
                    yield f"{left} @ {right}", x @ y
        if v.ndim == w.ndim == 1:
            yield f"{a}[:, None] * {b}", np.outer(v, w)


#: Changes that add a value of the function, and those that build new expressions; in the order in which they are tried.
ADDITIONS = (factors, terms, names, functions, terms_of_two)
INVENTIONS = (projections, derived_factors, choices, sums)
