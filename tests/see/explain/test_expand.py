"""A line of a backward, taken apart: its products add up to each entry, and have the names of the code."""

import numpy as np
import pytest

from npformer.check.inputs import as_tuple, like
from npformer.functional import OPERATIONS
from npformer.see.explain.expand import expand
from npformer.see.explain.operation import sample_inputs
from npformer.see.explain.spots import CannotExpand, Run, returned
from npformer.see.record.lines import tracing_lines


def run_of(name):
    """The run of an operation's backward on its sample, and its gradients."""
    row = OPERATIONS[name]
    y, cache = row.forward(*sample_inputs(name))
    rng = np.random.default_rng(0)
    dy = like(y, [np.asarray(rng.normal(size=np.shape(part))) for part in as_tuple(y)])
    with tracing_lines() as tracer:
        gradients = row.backward(dy, cache)
    return Run(tracer.frames[0]), gradients


#: Operations that add up in a loop: a term may be what earlier turns have added.
LOOPS = {"local_attention"}


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_products_of_each_entry_add_up_to_it(name):
    """Each has one factor of the upstream gradient."""
    run, gradients = run_of(name)
    for number, gradient in enumerate(gradients):
        for index in np.ndindex(np.shape(gradient)):
            terms = expand(returned(run, run.root, number, index))
            products = [term.value for term in terms.terms]
            largest = max(map(abs, products), default=0.0)
            assert name in LOOPS or all(sum(f.spot is not None for f in term.factors) == 1 for term in terms.terms)
            assert abs(sum(products) - gradient[index]) <= 1e-12 * max(largest, abs(gradient[index]))


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
    run = Run(tracer.frames[0])
    assert len(expand(returned(run, run.root, 0, (1,))).terms) == 3
    with pytest.raises(CannotExpand, match="its products do not add up"):
        expand(returned(run, run.root, 0, (0,)))


def test_an_array_that_has_a_name_is_shown_by_it():
    """one_hot is an expression without a name, in another type."""
    terms, _ = texts("embedding", 0, (2, 1))
    assert terms
    assert all("·one_hot[" in term for term in terms)
