"""The grader on right answers; its own answers held against npformer and against a measured derivative."""

import numpy as np

from npformer import functional as F  # noqa: N812
from npformer.functional import AttentionMask
from npformer.lab.grader import EXERCISES, Limits, find, grade_file, report
from npformer.lab.grader.exercises import cases_of
from npformer.lab.grader.runner import run
from npformer.lab.grader.source import read_source
from npformer.lab.grader.templates import template
from npformer.lab.grader.tree import named
from npformer.layers import Context, DecoderLayer, EncoderLayer, MultiHeadAttention
from tests.lab.learner import answered, each_exercise


@each_exercise
def test_a_right_answer_in_other_words_passes(exercise, tmp_path):
    (found,) = grade_file(answered(exercise.name, tmp_path))
    assert found.ok, report.report(found, 3, "")
    assert report.verdict(found) == f"{exercise.name}: right."


@each_exercise
def test_the_answers_are_the_derivatives_of_their_forwards(exercise, tmp_path):
    path = tmp_path / f"{exercise.name}.py"
    path.write_text(template(exercise))
    cases = cases_of(exercise)[:2]
    measured = run(exercise, read_source(path), [exercise], cases, Limits(), oracle=True)
    slopes = measured.slopes
    assert len(slopes) == len(cases)
    for case, slope in zip(cases, slopes, strict=True):
        truth = named(exercise.gradients, case.gradients)
        assert slope.keys() == truth.keys()
        for name in truth:
            np.testing.assert_allclose(truth[name], slope[name], rtol=1e-6, atol=1e-8, err_msg=name)


@each_exercise
def test_the_forwards_are_those_of_npformer(exercise, numpy64):
    for case in cases_of(exercise):
        theirs = npformers(exercise.name, case, numpy64)
        ours = named(exercise.outputs, case.outputs)
        for mine, theirs_ in zip(ours.values(), theirs, strict=True):
            np.testing.assert_allclose(mine, theirs_, rtol=1e-11, atol=1e-13)


def test_cases_are_awkward_enough():
    for exercise in EXERCISES:
        labels = [case.label for case in cases_of(exercise)]
        assert len(set(labels)) == len(labels) >= 3, exercise.name
        assert any("gaps" in label for label in labels), exercise.name
        assert any(_shortest_row(exercise, case) > 9 for case in cases_of(exercise)), exercise.name
        outputs = [y for case in cases_of(exercise) for y in named(exercise.outputs, case.outputs).values()]
        assert all(np.isfinite(y).all() for y in outputs), exercise.name
        assert any(np.any(g) for case in cases_of(exercise) for g in named(exercise.gradients, case.gradients).values())


def _shortest_row(exercise, case):
    """The length of the shortest row of numbers among the arguments and gradients of a case."""
    values = named(exercise.arguments, case.arguments) | named(exercise.gradients, case.gradients)
    return min(x.shape[-1] for x in values.values() if np.ndim(x))


def test_the_order_leads_from_parts_to_wholes():
    seen = {"split_heads", "merge_heads"}
    for exercise in EXERCISES:
        assert set(exercise.available) <= seen, exercise.name
        seen |= {f"{exercise.name}_forward", f"{exercise.name}_backward"}


def npformers(name, case, backend):
    """The outputs of npformer's own operation or layer on a case; a rate of 0.375 is the scale 1.6 of the cases."""
    a = dict(zip(find(name).arguments, case.arguments, strict=True))
    if name not in F.OPERATIONS:
        return (_layer(name, a, backend),)
    draw = None if a.get("keep") is None else F.Draw(0, 0, 0, 0, 0.375)
    a |= {"activation": "relu", "mask": _mask(a.get("visible")) if name == "attention" else None, "draw": draw}
    a["bits"] = lambda *_: np.where(a["keep"], 65535, 0).ravel()
    row = F.OPERATIONS[name]
    y, _ = row.forward(*(a[each] for each in row.inputs))
    return y if isinstance(y, tuple) else (y,)


def _mask(visible):
    """npformer's mask that says the same."""
    if visible is None:
        return AttentionMask()
    return AttentionMask(causal=True) if visible.ndim == 2 else AttentionMask(visible[:, 0, 0])


def _layer(name, a, backend):
    sizes = a["x"].shape[-1], a["num_heads"]
    if name == "multi_head_attention":
        layer, values = MultiHeadAttention(*sizes, backend=backend), _attention_params(a["params"])
    else:
        of = DecoderLayer if name == "decoder_layer" else EncoderLayer
        layer, values = of(*sizes, sizes[0] + 1, norm_order="pre" if "pre" in name else "post", backend=backend), {}
        for part, params in a["params"].items():
            named_ = _attention_params(params) if "attention" in part else _other_params(params)
            values |= {f"{'self_attention' if part == 'attention' else part}.{key}": x for key, x in named_.items()}
    parameters = dict(layer.named_parameters())
    assert parameters.keys() == values.keys()
    for key, parameter in parameters.items():
        parameter.data[...] = values[key]
    masks = {key.replace("visible", "mask"): _mask(a[key]) for key in ("visible", "memory_visible") if key in a}
    if name == "multi_head_attention" and masks:
        masks = {"memory_mask": masks["mask"]}
    return layer(*(a[key] for key in ("x", "memory") if key in a), context=Context(**masks))


def _attention_params(params):
    names = {"q": "query", "k": "key", "v": "value", "o": "output"}
    kinds = {"w": "weight", "b": "bias"}
    return {f"{names[key[1]]}.{kinds[key[0]]}": value for key, value in params.items()}


def _other_params(params):
    feed_forward = {"w1": "up.weight", "b1": "up.bias", "w2": "down.weight", "b2": "down.bias"}
    return {feed_forward.get(key, key): value for key, value in params.items()}
