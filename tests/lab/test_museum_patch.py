"""A bug is put in everywhere, and taken out again without a trace."""

import functools
from types import FunctionType

import numpy as np
import pytest

import npformer.functional.attention as attention
from npformer.backend import PLAIN, Backend
from npformer.backend.numpy import OPS
from npformer.functional import softmax_backward, softmax_forward
from npformer.functional.dropout import dropout_forward
from npformer.functional.feed_forward import ACTIVATIONS
from npformer.functional.layer_norm import layer_norm_forward
from npformer.lab.mistake import Edit
from npformer.lab.museum.bugs import BUGS
from npformer.lab.museum.patch import PatchError, changed_functions, function_at, noted, patched
from npformer.optim import Adam
from npformer.training import TrainStep

SOFTMAX = "npformer.functional.softmax:softmax_backward"
TWICE = Edit(SOFTMAX, "return (y * (dy - shared),)", "return (2 * y * (dy - shared),)")


def everything():
    """Every function that some bug changes, with all that a change could leave behind."""
    for target in sorted({edit.where for one in BUGS for edit in one.edits}):
        function = function_at(target)
        yield from (function, function.__code__, function.__defaults__, function.__kwdefaults__)
        yield tuple(vars(function).items())


def same(before, after):
    return len(before) == len(after) and all(a is b or a == b for a, b in zip(before, after, strict=True))


def gradient(backward):
    _, cache = softmax_forward(np.array([[0.3, -1.0, 2.0]]))
    return np.asarray(backward(np.array([[1.0, 2.0, -1.0]]), cache))


def test_the_bug_is_wherever_the_function_is():
    places = [softmax_backward, attention.softmax_backward, PLAIN.softmax.backward, OPS.softmax.backward]
    right = [gradient(place) for place in places]
    with patched([TWICE]) as backend:
        assert isinstance(backend, Backend)
        for place, expected in zip([*places, backend.ops.softmax.backward], [*right, right[-1]], strict=True):
            np.testing.assert_allclose(gradient(place), 2 * expected)
    for place, expected in zip(places, right, strict=True):
        np.testing.assert_array_equal(gradient(place), expected)


def test_it_reaches_partials_tables_methods_and_properties():
    assert isinstance(OPS.dropout.forward, functools.partial)
    assert OPS.dropout.forward.func is dropout_forward
    edits = [
        Edit("npformer.functional.dropout:dropout_forward", "return x, DropoutCache(None, 1.0)", "return 5 * x, None"),
        Edit("npformer.functional.relu:relu_backward", "xp = namespace(dy)", "return (9 * dy,)"),
        Edit("npformer.optim.adam:Adam.step", "self.t += 1", "self.t += 7"),
        Edit("npformer.training.step:TrainStep.step_number", "return self.optimizer.t", "return -1"),
    ]
    step = TrainStep.__new__(TrainStep)
    with patched(edits):
        assert OPS.dropout.forward(np.ones(2), None)[0].tolist() == [5, 5]
        assert ACTIVATIONS["relu"][1](np.ones(1), None)[0].tolist() == [9]
        assert step.step_number == -1
        assert "self.t += 7" not in (Adam.step.__doc__ or "")
        assert 7 in Adam.step.__code__.co_consts
    assert 7 not in Adam.step.__code__.co_consts


@pytest.mark.parametrize("fails", [False, True])
def test_afterwards_everything_is_the_same_object_again(fails):
    before = list(everything())
    for one in BUGS:
        try:
            with patched(one.edits):
                assert not same(before, list(everything())), one.id
                if fails:
                    raise ArithmeticError("a test that fails while the bug is in")
        except ArithmeticError:
            assert fails
        after = list(everything())
        assert same(before, after), one.id
        assert all(a is b for a, b in zip(before, after, strict=True) if hasattr(a, "co_code"))


def test_what_a_bug_remembers_on_a_function_is_forgotten():
    edit = Edit(SOFTMAX, "(y,) = cache", "(y,) = cache\n    softmax_backward.seen = True")
    with patched([edit]):
        gradient(softmax_backward)
        assert softmax_backward.seen
    assert not hasattr(softmax_backward, "seen")


def test_default_arguments_are_changed_and_restored():
    forward, x = layer_norm_forward, np.array([[1.0, -1.0]])
    right = forward(x, np.ones(2), np.zeros(2))[0]
    with patched([Edit("npformer.functional.layer_norm:layer_norm_forward", "1e-5", "3.0")]):
        np.testing.assert_allclose(forward(x, np.ones(2), np.zeros(2))[0], [[0.5, -0.5]])
    np.testing.assert_array_equal(forward(x, np.ones(2), np.zeros(2))[0], right)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (Edit(SOFTMAX, "y / dy", "y"), r"expected this code exactly once, found it 0 times:\ny / dy\n.*up to date"),
        (Edit(SOFTMAX, "y", "dy"), "expected this code exactly once, found it [0-9]+ times"),
        (Edit(SOFTMAX + "s", "y", "z"), "expected the name of a function, found none"),
        (Edit("npformer.nothing:f", "y", "z"), "expected the name of a function, found none .*renamed"),
        (Edit("npformer.optim.adam:Adam", "y", "z"), "expected a function, got type"),
        (Edit("npformer.optim.adam:AdamW.__init__", "not weight_decay >= 0", "weight_decay < 0"), "closure"),
    ],
)
def test_an_edit_that_does_not_fit_is_an_error_and_changes_nothing(edit, message):
    before = list(everything())
    with pytest.raises(PatchError, match=message), patched([TWICE, edit]):
        pytest.fail("the context was entered")
    assert same(before, list(everything()))


def test_what_runs_is_noted_and_nothing_stays_changed():
    before, other = list(everything()), "npformer.functional.layer_norm:layer_norm_forward"
    with noted([SOFTMAX, other]) as ran:
        assert ran == set()
        right = gradient(softmax_backward)
        assert ran == {SOFTMAX}
        ran.clear()
        layer_norm_forward(np.ones(3), np.ones(3), np.zeros(3))
        assert ran == {other}
    assert same(before, list(everything()))
    np.testing.assert_array_equal(gradient(softmax_backward), right)
    assert ran == {other}


def test_changed_functions_stand_alone():
    (wrong,) = changed_functions([TWICE])
    assert isinstance(wrong, FunctionType)
    assert wrong.__name__ == "softmax_backward"
    np.testing.assert_allclose(gradient(wrong), 2 * gradient(softmax_backward))
