"""A line, taken apart: its products add up to each entry, to 1e-12 of the largest, and have the names of the code."""

import numpy as np
import pytest

import npformer as npf
from npformer.backend import PLAIN
from npformer.check.cases.op_samples import op_cases
from npformer.check.inputs import as_tuple, like
from npformer.functional import OPERATIONS, erf
from npformer.functional.layer_norm import LAYER_NORM
from npformer.functional.linear import LINEAR
from npformer.see.explain import products
from npformer.see.explain.entries import CannotExpand, PairRun, returned
from npformer.see.explain.operation import explained_operation, operation_lines, sample_inputs
from npformer.see.explain.products import expand, sums_in, terms
from npformer.see.record.calls import gradient_names
from npformer.see.record.lines import tracing_lines
from npformer.see.record.models import showcase
from tests.check.functions import normals


def run_of(name):
    """The run of an operation's backward on its sample, and its gradients."""
    row = OPERATIONS[name]
    y, cache = row.forward(*sample_inputs(name))
    rng = np.random.default_rng(0)
    dy = like(y, [np.asarray(rng.normal(size=np.shape(part))) for part in as_tuple(y)])
    with tracing_lines() as tracer:
        gradients = row.backward(dy, cache)
    return PairRun(tracer.frames[0]), gradients


#: Operations that add up in a loop: a term may be what earlier turns have added.
LOOPS = {"local_attention"}


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_products_of_each_entry_add_up_to_it(name):
    """Each has one factor of the upstream gradient."""
    run, gradients = run_of(name)
    for number, gradient in enumerate(gradients):
        for index in np.ndindex(np.shape(gradient)):
            terms = expand(returned(run, run.root, number, index))
            values = [term.value for term in terms.terms]
            largest = max(map(abs, values), default=0.0)
            assert name in LOOPS or all(sum(f.spot is not None for f in term.factors) == 1 for term in terms.terms)
            assert abs(sum(values) - gradient[index]) <= 1e-12 * max(largest, abs(gradient[index]))


def texts(name, number, index):
    run, _ = run_of(name)
    terms = expand(returned(run, run.root, number, index))
    return [term.text for term in terms.terms], terms.line


def test_the_products_of_a_weight_are_those_of_its_derivation():
    terms, line = texts("linear", 1, (2, 1))
    assert terms == [f"x[0,{t},2]·dy[0,{t},1]" for t in range(3)]
    assert line.file == "functional/linear.py"
    assert line.code.startswith("dweight = xp.matmul(")


def test_the_terms_of_layer_norm_are_the_three_of_its_derivation():
    terms, line = texts("layer_norm", 0, (0, 2, 1))
    assert terms == [
        "r[0,2,0]·g[0,2,1]",
        "−r[0,2,0]·along_one[0,2,0]",
        "−r[0,2,0]·x_hat[0,2,1]·along_x_hat[0,2,0]",
    ]
    assert "(g - along_one - x_hat * along_x_hat)" in line.code


def test_a_call_is_followed_into_the_function_that_it_calls():
    terms, line = texts("feed_forward", 1, (0, 1))
    assert line.file == "functional/linear.py"
    assert terms == [f"x[0,{t},0]·dh[0,{t},1]" for t in range(3)]


def masked_backward(dy, cache):
    """A line that is not what it seems: the sum leaves numbers out."""
    return (np.sum(dy, axis=0, where=cache),)


def test_a_line_whose_products_do_not_add_up_is_not_taken_apart():
    with tracing_lines([masked_backward]) as tracer:
        masked_backward(np.ones((3, 2)), np.array([[True, True], [False, True], [True, True]]))
    run = PairRun(tracer.frames[0])
    assert len(expand(returned(run, run.root, 0, (1,))).terms) == 3
    with pytest.raises(CannotExpand, match="its products do not add up"):
        expand(returned(run, run.root, 0, (0,)))


def test_an_array_that_has_a_name_is_shown_by_it():
    """one_hot is an expression without a name, in another type."""
    terms, _ = texts("embedding", 0, (2, 1))
    assert terms
    assert all("·one_hot[" in term for term in terms)


#: What is not read, by operation and pass: lists that are filled, a state that steps write into.
UNREAD = {
    ("local_attention", "forward"): {"part"},
    ("local_attention", "backward"): {"parts", "part"},
    ("gru", "backward"): {"da_all", "du_all", "r", "z", "n", "u_n"},
}
FUNCTIONS = {name: getattr(np, name) for name in ("exp", "log", "sqrt", "tanh", "sin", "cos")} | {"erf": erf}


def expect_exact(one):
    """The products add up to the numbers, or to that of which these are a function."""
    entries, expansion = one.array.reshape(-1)[one.entries], one.expansion
    value = eval(expansion.around or "sum", FUNCTIONS | {"sum": expansion.total})
    assert np.allclose(value, entries, rtol=1e-12, atol=0), expansion.line
    parts = [np.broadcast_to(term.value, entries.shape) for term in expansion.terms]
    total = sum(parts, np.zeros(entries.shape))
    largest = np.max(np.abs([np.broadcast_to(expansion.total, entries.shape), *parts]), axis=0)
    with np.errstate(invalid="ignore"):
        assert np.all((total == expansion.total) | (np.abs(total - expansion.total) <= 1e-12 * largest)), expansion.line


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
    (r,) = [one for one in sums_in(frame) if one.expansion.line.code.startswith("r =")]
    assert r.expansion.around == "1 / sqrt(sum)"
    labels = [[factor.label or factor.text for factor in term.factors] for term in r.expansion.terms]
    assert labels == [*[["centred", "centred", "1/5"]] * 5, ["eps"]]
    text = "\n".join(operation_lines(explained_operation("layer_norm"), 160))
    assert "= 1 / sqrt(sum), sum = centred[0,2,0]·centred[0,2,0]·1/3 + " in text


def test_of_an_array_with_too_many_factors_the_entry_that_is_asked_is_told(monkeypatch):
    frame = npf.trace("linear").recording.seen[0].backward
    dweight = frame.returned[1]
    monkeypatch.setattr(products, "MOST_FACTORS", 10)
    assert not [one for one in sums_in(frame) if np.array_equal(one.array, dweight)]
    (one,) = sums_in(frame, entry=(dweight, 3))
    expect_exact(one)
    assert one.entries.tolist() == [3]


def test_what_dropout_kept_and_what_it_dropped_are_told_apart():
    frame = npf.trace("dropout").recording.seen[0].backward
    parts = [one for one in sums_in(frame) if one.entries.size < one.array.size]
    assert sorted(len(one.expansion.terms) for one in parts) == [0, 1]


CASES = list(op_cases())
DRAW = normals()
X, DY = DRAW(3, 2), DRAW(3, 4)
CACHE = npf.functional.linear_forward(X, DRAW(2, 4), DRAW(4))[1]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_terms_sum_to_the_gradient(case):
    row = OPERATIONS[case.name.partition(":")[0]]
    y, cache = row.forward(*case.inputs)
    draw = normals(7)
    dys = tuple(draw(*np.shape(part)) for part in as_tuple(y))
    dy = dys if isinstance(y, tuple) else dys[0]
    gradients = row.backward(dy, cache)
    for name, gradient in zip(gradient_names(row, len(gradients)), gradients, strict=True):
        parts = terms(row, cache, dy, name)
        assert [part.shape for part in parts] == [gradient.shape + one.shape for one in dys]
        flat = np.concatenate([part.reshape(*gradient.shape, -1) for part in parts], axis=-1)
        assert np.all(np.abs(flat.sum(axis=-1) - gradient) <= 1e-12 * np.abs(flat).max()), name
        index = tuple(size // 2 for size in gradient.shape)
        for one, part in zip(terms(row, cache, dy, name, index), parts, strict=True):
            assert np.array_equal(one, part[index])


def test_a_term_is_the_formulas():
    """dW_ij = Σ_n x_ni dy_nj: the term of dy_nj is x_ni·dy_nj, and no other dy_nk has one."""
    (dweight,) = terms(LINEAR, CACHE, DY, "weight")
    assert dweight.shape == (2, 4, 3, 4)
    expected = np.zeros_like(dweight)
    for j in range(4):
        expected[:, j, :, j] = (X * DY[:, [j]]).T
    assert np.allclose(dweight, expected, rtol=1e-15, atol=0)


def test_the_names_of_gradients():
    assert gradient_names(LAYER_NORM, 3) == ["x", "gamma", "beta"]
    assert gradient_names(OPERATIONS["embedding"], 1) == ["table"]
    assert gradient_names(PLAIN.cross_entropy, 1) == ["logits"]
    assert gradient_names((lambda a, b: None, lambda dy, cache: None), 2) == ["a", "b"]
