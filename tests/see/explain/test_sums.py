"""Every number that a line made is the sum of the products of its line, to 1e-12 of the largest."""

import numpy as np
import pytest

import npformer as npf
from npformer.functional import OPERATIONS, erf
from npformer.see.explain import sums
from npformer.see.explain.operation import explained_operation
from npformer.see.explain.operation_text import operation_lines
from npformer.see.explain.sums import sums_in
from npformer.see.record.showcase import showcase

#: What is not read, by operation and pass: lists that are filled, a state that steps write into.
UNREAD = {
    ("local_attention", "forward"): {"part"},
    ("local_attention", "backward"): {"parts", "part"},
    ("gru", "backward"): {"da_all", "du_all", "r", "z", "n", "u_n"},
}
FUNCTIONS = {name: getattr(np, name) for name in ("exp", "log", "sqrt", "tanh", "sin", "cos")} | {"erf": erf}


def values(products):
    """The products, (count, entries) or (1, entries) each."""
    for each in products:
        value = np.full((each.times, 1), each.sign)
        for factor in each.factors:
            x = factor.array.reshape(-1)[factor.at]
            value = value * (1 / x if factor.is_below else x)
        yield value


def expect_exact(one):
    parts = [np.broadcast_to(value, (len(value), one.entries.size)) for value in values(one.products)]
    total = sum((part.sum(axis=0) for part in parts), np.zeros(one.entries.size))
    largest = np.max([np.abs(one.total), *(np.abs(part).max(axis=0) for part in parts)], axis=0)
    with np.errstate(invalid="ignore"):
        assert np.all((total == one.total) | (np.abs(total - one.total) <= 1e-12 * largest)), one.code
    value = eval(one.around or "sum", FUNCTIONS | {"sum": one.total})
    assert np.allclose(value, one.array.reshape(-1)[one.entries], rtol=1e-12, atol=0), one.code


def told(frame):
    """Which entries of each array are told, by the array's numbers."""
    done = {}
    for one in sums_in(frame):
        expect_exact(one)
        done.setdefault((one.array.shape, one.array.tobytes()), np.zeros(one.array.size, bool))[one.entries] = True
    return done


def made_here(frame, kept):
    """Name and array of every float array that a frame's lines made; what is kept was made before."""
    for step in frame.steps:
        for name, x in step.values.items():
            for part in x if isinstance(x, tuple) and not hasattr(x, "_fields") else (x,):
                if isinstance(part, np.ndarray) and part.dtype.kind == "f" and not is_in(part, kept):
                    yield name, part
        for inner in step.inside:
            yield from made_here(inner, kept)


def is_in(x, kept):
    if isinstance(kept, np.ndarray):
        return kept.shape == x.shape and np.array_equal(kept, x)
    return isinstance(kept, tuple | list) and any(is_in(x, part) for part in kept)


def untold(recording):
    """Operation, pass and names of what has no sum."""
    missing = {}
    for call, seen in zip(recording.calls, recording.seen, strict=True):
        for way, frame, kept in (
            ("forward", seen.forward, ()),
            ("backward", seen.backward, (seen.cache, seen.upstream)),
        ):
            done = {} if frame is None else told(frame)
            for name, x in () if frame is None else made_here(frame, kept):
                if not done.get((x.shape, x.tobytes()), np.zeros(1, bool)).all():
                    missing.setdefault((call.operation, way), set()).add(name)
    return missing


def test_every_number_of_the_showcase_is_the_sum_of_its_lines_products():
    assert untold(showcase().recording) == {}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_number_of_every_operation_is_too(name):
    missing = untold(npf.trace(name).recording)
    for key, names in missing.items():
        assert names <= UNREAD.get(key, set()) | {"return"}, key


def test_the_code_of_r_stands_around_its_sum_on_the_page_and_in_the_terminal():
    frame = npf.trace("layer_norm").recording.seen[0].forward
    (r,) = [one for one in sums_in(frame) if one.code.startswith("r =")]
    assert r.around == "1 / sqrt(sum)"
    assert [(each.times, [factor.text for factor in each.factors]) for each in r.products] == [
        (5, ["centred", "centred", "1/5"]),
        (1, ["eps"]),
    ]
    text = "\n".join(operation_lines(explained_operation("layer_norm"), 160))
    assert "= 1 / sqrt(sum), sum = centred[0,2,0]·centred[0,2,0]·1/3 + " in text


def test_of_an_array_with_too_many_factors_the_entry_that_is_asked_is_told(monkeypatch):
    frame = npf.trace("linear").recording.seen[0].backward
    dweight = frame.returned[1]
    monkeypatch.setattr(sums, "MOST_FACTORS", 10)
    assert not [one for one in sums_in(frame) if np.array_equal(one.array, dweight)]
    (one,) = sums_in(frame, entry=(dweight, 3))
    expect_exact(one)
    assert one.entries.tolist() == [3]


def test_what_dropout_kept_and_what_it_dropped_are_told_apart():
    frame = npf.trace("dropout").recording.seen[0].backward
    parts = [one for one in sums_in(frame) if one.entries.size < one.array.size]
    assert sorted(len(one.products) for one in parts) == [0, 1]
