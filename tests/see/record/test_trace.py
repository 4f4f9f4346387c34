"""Every number in a trace is one that the model itself makes in float64, and the gradients add up."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest

import npformer as npf
from npformer.backend import PLAIN, Pair, get_backend
from npformer.check import catalogue
from npformer.check.cases.case import KEY, shaken
from npformer.check.cases.catalogue import Twice
from npformer.check.inputs import as_tuple, place
from npformer.errors import ConfigError, DataError, ShapeError
from npformer.functional.layer_norm import LAYER_NORM
from npformer.layers import BatchNorm, Context, EncoderLayer, Layer
from npformer.layers.linear import Linear
from npformer.see.record.models import showcase, showcase_model
from npformer.see.record.trace import Trace, trace
from tests.check.functions import normal
from tests.check.own_code import Gate, Passing, Scaled
from tests.check.small_models import BACKEND, SRC, TGT
from tests.check.small_models import model as small_model
from tests.faults.mutations import mutated, mutated_tree

CASES = [case for case in catalogue() if case.group != "op"]

ROWS, TOKENS = normal(2, 3), normal(2, 3, 4)


def added(record):
    """The sum of what all calls added to each parameter."""
    total = {}
    for call in record.calls:
        for each in call["added"]:
            total[each["parameter"]] = total.get(each["parameter"], 0) + record.arrays[each["array"]]
    return total


def called(record, name):
    """The one call of this name."""
    (call,) = (call for call in record.calls if call["name"] == name)
    return call


def gradients(record):
    return {one["name"]: record.arrays[one["gradient"]] for one in record.document["parameters"]}


def expect_gradients(record, target):
    """The trace has the gradients that the target has now, to the bit."""
    expected = {name: parameter.grad for name, parameter in target.named_parameters()}
    assert gradients(record).keys() == expected.keys()
    for name, gradient in gradients(record).items():
        assert np.array_equal(gradient, expected[name]), name


def expect_same_sums(record):
    total = added(record)
    for name, gradient in gradients(record).items():
        contribution = total.get(name, np.zeros_like(gradient))
        assert contribution.shape == gradient.shape
        assert np.abs(contribution - gradient).max() <= 4e-16 * np.abs(gradient).max(), name


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_trace_is_what_the_target_computes_itself(case):
    """The output, and every parameter's gradient."""
    target = case.build(BACKEND)
    record = trace(target, *case.inputs, lines=False, **case.options)
    recording = record.recording
    untraced = case.build(BACKEND)
    options = {name: place(value, BACKEND.device) for name, value in case.options.items()}
    y, cache = untraced.forward(*case.inputs, **options)
    for one, other in zip(as_tuple(recording.seen[0].output), as_tuple(y), strict=True):
        assert np.array_equal(one, other)
    untraced.zero_grad()
    untraced.backward(recording.upstream if isinstance(y, tuple) else recording.upstream[0], cache)
    expect_gradients(record, untraced)
    expect_same_sums(record)


def test_the_loss_and_its_gradient():
    model, inputs, targets, tokens = showcase_model()
    record = trace(model, *inputs, targets=targets, tokens=tokens)
    logits, cache = model.forward(*inputs)
    loss, of_loss = npf.functional.cross_entropy_forward(logits, targets, 0)
    model.zero_grad()
    model.backward(npf.functional.cross_entropy_backward(1.0, of_loss)[0], cache)
    assert record.document["loss"] == float(loss)
    expect_gradients(record, model)
    last = record.calls[-1]
    assert (last["name"], last["type"], last["parent"]) == ("loss", "cross_entropy", None)
    assert record.document["tokens"]["target_out"] == [["t", "o", "b", "[EOS]"], ["o", "t", "[EOS]", "[PAD]"]]


def test_the_times_are_those_of_one_walk_there_and_back():
    record = showcase()
    ways = [call[way] for call in record.calls for way in ("forward", "backward")]
    times = sorted(time for way in ways for time in (way["start"], way["end"]))
    assert times == list(range(4 * len(record.calls)))
    for call in record.calls:
        if call["parent"] is not None:
            for way in ("forward", "backward"):
                outer = record.calls[call["parent"]][way]
                assert outer["start"] < call[way]["start"] < call[way]["end"] < outer["end"]
    forward = [call["forward"]["start"] for call in record.calls]
    assert forward == sorted(forward)


def with_numbers_of(one, other):
    """The other layer, with the parameters and buffers of one."""
    pairs = zip(
        (*one.named_parameters(), *one.named_buffers()),
        (*other.named_parameters(), *other.named_buffers()),
        strict=True,
    )
    for (_, mine), (_, theirs) in pairs:
        theirs.data[...] = mine.data
    return other


@pytest.mark.parametrize("kernels", ["numpy", "plain"])
def test_a_float32_model_is_traced_in_float64_and_left_as_it_was(kernels):
    model = small_model(backend=get_backend("numpy", kernels=kernels), recompute=True, dropout=0.1)
    before = {id(x): vars(x).copy() for x in (model, *model.all_layers())}
    record = trace(model, SRC, TGT, key=KEY)
    wide_model = with_numbers_of(model, small_model(dropout=0.1))
    y, cache = wide_model.forward(SRC, TGT, key=KEY)
    wide_model.backward(record.recording.upstream[0], cache)
    same = trace(wide_model, SRC, TGT, key=KEY, lines=False)
    assert [call["name"] for call in record.calls] == [call["name"] for call in same.calls]
    assert np.array_equal(record.recording.seen[0].output, y)
    expect_gradients(record, wide_model)
    after = {id(x): vars(x) for x in (model, *model.all_layers())}
    for each, attributes in before.items():
        assert attributes.keys() == after[each].keys()
        assert all(value is after[each][name] for name, value in attributes.items() if name != "_version")
    assert all(p.data.dtype == np.float32 and p.grad.dtype == np.float32 for _, p in model.named_parameters())
    model.arena.expect_all(model.owned_parameters())


def test_running_statistics_are_read_in_float64():
    x = TOKENS.astype(np.float32)
    layer = shaken(BatchNorm(4, backend=get_backend("numpy", kernels="plain")))
    layers = layer, with_numbers_of(layer, BatchNorm(4, backend=BACKEND))
    outputs = [trace(layer, x).recording.seen[0].output for layer in layers]
    assert np.array_equal(*outputs)
    assert all(buffer.data.dtype == np.float32 for _, buffer in layers[0].named_buffers())


def test_tied_weights_have_a_contribution_from_each_use():
    model, inputs, targets, _ = showcase_model(tie_embeddings=True)
    record = trace(model, *inputs, targets=targets)
    (table,) = [one for one in record.document["parameters"] if one["name"] == "src_embedding.weight"]
    assert table["aliases"] == ["tgt_embedding.weight", "generator.weight"]
    uses = [
        call["name"] for call in record.calls for one in call["added"] if one["parameter"] == "src_embedding.weight"
    ]
    assert uses == ["src_embedding.embedding", "src_embedding.embedding", "generator.linear"]
    assert [call["use"] for call in record.calls if call["name"] == "src_embedding.embedding"] == [1, 2]
    params = called(record, "generator.linear")["params"]
    assert params["weight"] == [{"parameter": "src_embedding.weight", "columns": None, "transposed": True}]
    expect_same_sums(record)


def test_a_layer_used_twice_has_two_calls_and_two_contributions():
    record = trace(Twice(4, 6, backend=BACKEND), TOKENS, context=Context(key=KEY))
    calls = [call for call in record.calls if call["type"] == "feed_forward"]
    assert [call["use"] for call in calls] == [1, 2]
    first, second = ({one["parameter"]: one["array"] for one in call["added"]} for call in calls)
    assert first.keys() == second.keys() == gradients(record).keys()
    assert all(first[name] != second[name] for name in first)
    expect_same_sums(record)
    masks = [call["cache"][3]["value"]["items"][0] for call in calls]
    assert masks[0] != masks[1], "each use draws a mask of its own"
    names = [line.strip().partition("   ")[0] for line in record.text().splitlines() if "feed_forward" in line]
    assert names == [f"{name}{use}" for use in ("", " (2)") for name in ("feed_forward", "feed_forward.feed_forward")]


def test_the_columns_of_a_block_are_three_parameters():
    record = showcase()
    call = called(record, "encoder.layers.0.self_attention.linear")
    names = [f"encoder.layers.0.self_attention.{name}.weight" for name in ("query", "key", "value")]
    assert [(one["parameter"], one["columns"]) for one in call["params"]["weight"]] == [
        (name, (4 * i, 4 * i + 4)) for i, name in enumerate(names)
    ]
    (whole,) = [one["value"] for one in call["gradients"] if one["of"] == "weight"]
    cut = {one["parameter"]: record.arrays[one["array"]] for one in call["added"]}
    assert np.array_equal(record.arrays[whole], np.hstack([cut[name] for name in names]))


def test_a_users_layer_shows_its_lines_and_its_own_contributions():
    record = trace(Scaled(BACKEND), ROWS)
    root = record.calls[0]
    assert [one["parameter"] for one in root["added"]] == ["scale"]
    expect_same_sums(record)
    assert root["backward"]["function"] == "own_code.Scaled.backward"
    changed = [set(line["values"]) for line in root["backward"]["lines"]]
    assert changed == [{"x", "h", "inner"}, set(), {"dx"}, set(), {"return"}]
    assert root["forward"]["lines"][-1]["values"]["return"]["items"][0] == root["outputs"][0]["value"]
    (dx,) = [one["value"] for one in root["gradients"]]
    assert root["backward"]["lines"][-1]["values"]["return"] == dx
    text = record.document["sources"]["own_code"]["functions"]["Scaled.backward"]["text"]
    assert text.startswith("def backward(self, dy, cache):")


class Silent(Layer):
    """It runs one part whose backward it never calls, and one whose forward keeps no cache."""

    def __init__(self):
        super().__init__(BACKEND)
        self.used, self.forgotten = Linear(3, 3, backend=BACKEND), Linear(3, 3, backend=BACKEND)
        self.bare = Bare(BACKEND)

    def forward(self, x):
        h, cache = self.used.forward(x)
        return h + self.forgotten.forward(x)[0] + self.bare.forward(x), cache

    def backward(self, dy, cache):
        return self.used.backward(dy, cache)


class Bare(Layer):
    def forward(self, x):
        return x * 0.5


def test_another_device_gives_the_same_trace(strict64):
    """On one whose arrays have no addresses, contributions are what has changed."""
    x = TOKENS
    record, expected = (trace(EncoderLayer(4, 2, 6, backend=backend), x) for backend in (strict64, BACKEND))
    expect_same_sums(record)
    assert added(record).keys() == added(expected).keys()
    assert all(np.array_equal(total, added(expected)[name]) for name, total in added(record).items())
    assert record.arrays.keys() == expected.arrays.keys()
    lines = [
        [call[way]["lines"] for call in each.calls for way in ("forward", "backward")] for each in (record, expected)
    ]
    assert lines[0] == lines[1]


class OwnCache(Passing):
    """It hands the operation a copy of the cache, which nobody knows."""

    def backward(self, dy, cache):
        return super().backward(dy, type(cache)(*cache))


def test_what_an_unknown_call_adds_belongs_to_the_layer_around_it():
    record = trace(OwnCache(BACKEND), ROWS)
    layer, operation = record.calls
    assert operation["backward"] is None
    assert [one["parameter"] for one in layer["added"]] == ["inner.weight", "inner.bias"]
    expect_same_sums(record)


def test_a_part_whose_backward_does_not_run_has_none():
    record = trace(Silent(), ROWS)
    calls = {call["name"]: call for call in record.calls}
    assert calls["forgotten.linear"]["backward"] is calls["bare"]["backward"] is None
    assert calls["forgotten.linear"]["upstream"] == calls["forgotten.linear"]["gradients"] == []
    assert record.arrays[calls["bare"]["outputs"][0]["value"]].shape == (2, 3)
    assert calls["bare"]["forward"]["function"] == "test_trace.Bare.forward"
    assert calls["used.linear"]["backward"]["function"] == "linear.linear_backward"
    assert not gradients(record)["forgotten.weight"].any()
    expect_same_sums(record)


def test_numbers_that_json_lacks():
    record = trace("relu", np.array([[np.nan, np.inf]]), upstream=np.ones((1, 2)))
    back = Trace.from_json(record.to_json())
    assert back.document["loss"] == {"number": "nan"}
    assert "no finite number" in str(back)


def test_an_object_of_another_class():
    target, x = Gate(), TOKENS
    target.w.grad = target.c.grad = None
    record = trace(target, x)
    assert target.w.grad is target.c.grad is None
    target.w.grad, target.c.grad = np.zeros(4), np.zeros(4)
    target.backward(record.recording.upstream[0], x)
    expect_gradients(record, target)
    assert np.array_equal(added(record)["w"], target.w.grad)
    assert [call["type"] for call in record.calls] == ["Gate"]
    assert [line["values"] for line in record.calls[0]["forward"]["lines"]]


def cube_forward(x):
    square = x * x
    return square * x, square


def cube_backward(dy, cache):
    return (3 * cache * dy,)


def test_a_users_pair():
    x = np.array([[1.0, -2.0]])
    for target in ((cube_forward, cube_backward), Pair(cube_forward, cube_backward)):
        record = trace(target, x, upstream=np.ones((1, 2)))
        (call,) = record.calls
        assert (call["type"], call["kind"], record.document["kind"]) == ("cube", "operation", "operation")
        assert record.arrays[call["gradients"][0]["value"]].tolist() == [[3.0, 12.0]]
        assert call["gradients"][0]["of"] == "x"
        first, last = call["forward"]["lines"]
        assert record.arrays[first["values"]["square"]].tolist() == [[1.0, 4.0]]
        assert last["values"]["return"]["items"][0] == call["outputs"][0]["value"]


def test_a_pair_that_a_user_put_into_the_table_of_operations_is_the_one_that_runs():
    def wrong(dy, cache, into=()):
        return 2 * PLAIN.linear.backward(dy, cache, into)

    backend = get_backend("numpy", kernels="numpy")
    layer = Linear(3, 2, backend=replace(backend, ops=replace(backend.ops, linear=Pair(PLAIN.linear.forward, wrong))))
    x = ROWS
    record = trace(layer, x)
    right = trace(Linear(3, 2, backend=backend), x)
    twice, once = (f.arrays[f.calls[0]["gradients"][0]["value"]] for f in (record, right))
    assert np.array_equal(twice, 2 * once)


@pytest.mark.parametrize("target", ["layer_norm", LAYER_NORM, PLAIN.layer_norm, get_backend("numpy").ops.layer_norm])
def test_an_operation_by_name_row_or_pair(target):
    inputs = normal(2, 3, 4), normal(4, seed=1), normal(4, seed=2), 1e-5
    record = trace(target, *inputs)
    (call,) = record.calls
    assert call["type"] == "layer_norm"
    assert [one["name"] for one in call["inputs"]] == ["x", "gamma", "beta", "eps"]
    assert call["inputs"][3]["value"] == 1e-5
    y, cache = npf.functional.layer_norm_forward(*inputs)
    gradients = npf.functional.layer_norm_backward(record.recording.upstream[0], cache)
    made = [record.arrays[one["value"]] for one in (*call["outputs"], *call["gradients"])]
    assert all(map(np.array_equal, made, (y, *gradients)))
    assert [one["of"] for one in call["gradients"]] == ["x", "gamma", "beta"]


def test_json_comes_back_to_the_last_bit():
    record = showcase(norm_order="pre", dropout=0.0)
    back = Trace.from_json(record.to_json())
    assert back.recording is None
    assert back.document == json.loads(json.dumps(record.document))
    assert back.arrays.keys() == record.arrays.keys()
    for name, x in record.arrays.items():
        assert back.arrays[name].dtype == x.dtype
        assert np.array_equal(back.arrays[name], x, equal_nan=x.dtype.kind == "f"), name
    assert str(back) == str(record)


@pytest.mark.parametrize("width", [None, 60, 80, 120])
def test_the_tree_of_calls_fits_the_terminal(width):
    """Where names do not fit, each leaves out that of the call around it."""
    record = showcase()
    lines = record.text(width).splitlines()
    assert len(lines) == len(record.calls) + 3
    assert max(map(len, lines)) <= (width or 100)
    names = [line.split()[0] for line in lines[2:-1]]
    assert ("decoder.layers.0.cross_attention.attention" in names) == (width in (None, 120))
    assert names.count(".attention") == (0 if width in (None, 120) else 3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "expected JSON"),
        ("[]", "format 'npformer-trace'"),
        ('{"format": "npformer-trace", "version": 9}', "expected version 1, got 9"),
        ('{"format": "npformer-trace", "version": 1}', "expected arrays"),
        ('{"format": "npformer-trace", "version": 1, "arrays": {}}', "a whole document, got one without calls, kind"),
        ('{"format": "npformer-trace", "version": 1, "arrays": {"a0": {"dtype": "object", "shape": [], "data": ""}}}',
         "dtype 'object'"),
        ('{"format": "npformer-trace", "version": 1, "arrays": {"a0": {"dtype": "bool", "shape": [9e99], "data": ""}}}',
         "expected arrays"),
        ('{"format": "npformer-trace", "version": 1, "arrays": {"a0": {"dtype": "int64", "shape": [2], "data": ""}}}',
         "cannot reshape"),
    ],
)  # fmt: skip
def test_what_is_no_trace_is_refused(text, words):
    with pytest.raises(DataError, match=words):
        Trace.from_json(text)


def test_damage_raises_data_error_alone():
    text, draw, refused = trace("relu", lines=False).to_json().encode(), random.Random(0), 0
    for _ in range(300):
        change = draw.random() < 0.5
        damaged = mutated(text, draw) if change else json.dumps(mutated_tree(json.loads(text), draw)).encode()
        try:
            Trace.from_json(damaged)
        except DataError:
            refused += 1
    assert refused > 100


def test_a_trace_that_is_too_large_says_how_large_and_what_to_do():
    model, inputs, targets, _ = showcase_model()
    with pytest.raises(ConfigError, match=r"at most 0.001 MB of numbers, got 0.008 MB: .* its 500 parameters alone"):
        trace(model, *inputs, targets=targets, limit=1000)
    size = sum(x.nbytes for x in showcase().arrays.values())
    with pytest.raises(ConfigError, match="its 45 calls; make the batch, the sequences or the model smaller, or"):
        trace(model, *inputs, targets=targets, limit=size - 1)
    assert trace(model, *inputs, targets=targets, limit=size).arrays


def test_bad_arguments():
    x = np.ones((2, 3))
    with pytest.raises(ConfigError, match=r"expected the name of an operation, got 'layer_nrm'.*layer_norm"):
        trace("layer_nrm", x)
    with pytest.raises(ConfigError, match="expected none beside targets"):
        trace("relu", x, targets=np.array([1, 2]), upstream=x)
    with pytest.raises(ShapeError, match=r"upstream: expected \[\(2, 3\)\]"):
        trace("relu", x, upstream=np.ones(3))
