"""Invariants hold over the catalogue; each says what it claims, in 80 columns, and changes nothing."""

import json
from dataclasses import fields
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from npformer.backend import Ops, get_backend
from npformer.check import catalogue
from npformer.check.invariants import INVARIANTS, certify
from npformer.check.report import NOT_APPLICABLE, Claim, Report
from npformer.check.subject import name_of
from npformer.errors import CacheUsedError, GradientError, ShapeError
from npformer.functional import AttentionMask
from npformer.layers import BatchNorm, Context, EncoderLayer, LayerNorm, Linear, RandomKey
from tests.check.own_code import Gate
from tests.check.small_models import SRC, TGT, X
from tests.check.small_models import model as small_model

CASES = catalogue()
BY_NAME = {case.name: case for case in CASES}


@cache
def backend64():
    """NumPy with its fastest kernels; inside of tests, since they may have to be compiled."""
    return get_backend("numpy", dtype="float64")


def claims(case, backend):
    return certify(case.build(backend), *case.inputs, name=case.name, device=backend.device, **case.options)


@cache
def claims_before(name):
    """The same of a case of the catalogue on NumPy, once for all tests."""
    return claims(BY_NAME[name], backend64())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_invariant_holds_on_the_catalogue(case):
    """Every model is certified blind to padding, and causal unless it is an encoder, which looks ahead."""
    report = claims_before(case.name)
    assert report.ok, str(report)
    if case.group == "model":
        kind, _, of = case.name.partition(": ")
        assert report["padding-invariance"].holds
        assert report["causality"].holds == (kind != "Encoder" and "length 1" not in of)
        assert report["ignored-tokens"].holds == (not of.startswith("sequence"))
        assert report["tying"].holds == ("tied" in of.split(", "))


def test_every_invariant_has_something_to_say():
    cases = [case for case in CASES if "tied" in case.name or case.name == "MultiHeadAttention: self"]
    assert {claim.name for case in cases for claim in claims_before(case.name).claims if claim.holds} == set(INVARIANTS)


def test_a_decoder_that_looks_ahead_or_at_padding_is_found(numpy64, monkeypatch):
    case = BY_NAME["Decoder: none, full, post"]
    for hidden, failing in ((True, "causality"), (False, "padding-invariance")):
        monkeypatch.setattr(
            "npformer.models.decoder.AttentionMask",
            lambda key_visible, causal, hidden=hidden: AttentionMask(key_visible if hidden else None, not hidden),
        )
        assert certify(case.build(numpy64), np.array([[3, 0, 4, 6, 2], [6, 5, 0, 3, 1]]))[failing].fails


def test_a_norm_that_is_told_to_train_normalises_by_the_batch(numpy64):
    class Told(BatchNorm):
        """A norm of somebody's own, with a flag in the place of a key."""

        causal = True  # in inference no token looks at another

        def forward(self, x, *, training):
            return super().forward(x, context=Context(key=RandomKey(1) if training else None))

    report = certify(Told(4, backend=numpy64), X, training=True)
    assert report.ok, str(report)
    assert not report["sequences-alone"].applies
    assert certify(Told(4, backend=numpy64), X, training=False)["sequences-alone"].holds


def test_sequences_under_batch_norm_are_alone_in_inference(numpy64):
    training, inference = (BY_NAME[f"BatchNorm: {which}"] for which in ("training, padding", "inference"))
    report = claims(training, numpy64)
    assert report["sequences-alone"].holds
    assert report["batch-order"].holds
    assert claims(inference, numpy64)["sequences-alone"].holds
    (x,) = inference.inputs
    assert certify(EncoderLayer(4, 2, 6, norm="batch", backend=numpy64), x)["sequences-alone"].holds


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("EncoderLayer: pre, gelu", INVARIANTS),
        ("Transformer: post, gelu, tied", ("causality", "padding-invariance", "ignored-tokens", "tying")),
    ],
)
def test_they_run_on_a_device_that_is_not_the_host(case, names, strict64):
    case, device = BY_NAME[case], strict64.device
    found = [INVARIANTS[name](case.build(strict64), *case.inputs, device=device, **case.options) for name in names]
    report = Report(case.name, claims=tuple(found))
    assert report.ok, str(report)


def test_the_text_fits_80_columns_and_names_what_failed():
    class Wrong(Linear):
        def backward(self, dy, cache):
            self.weight.grad[...] = 0
            return super().backward(dy, cache)

    right = str(claims_before(CASES[-1].name))
    assert "causality           holds" in right
    report = certify(Wrong(4, 5, backend=backend64()), X, name="a name that is longer than " + "any line " * 12)
    assert max(map(len, [*right.splitlines(), *str(report).splitlines()])) <= 80
    assert not report.ok
    assert "DOES NOT HOLD: gradient of weight after 1" in " ".join(str(report).split())
    assert "claimed: backward adds to the gradients" in " ".join(str(report).split())
    with pytest.raises(GradientError, match="accumulation"):
        report.raise_if_failed()


def test_results_are_data():
    report = certify(LayerNorm(4, backend=backend64()), X)
    document = json.loads(report.to_json())
    assert (document["ok"], document["name"]) == (True, "LayerNorm")
    assert [row["name"] for row in document["claims"]] == list(INVARIANTS)
    assert report["tying"].reason
    assert not report["tying"].applies


def test_a_report_on_nothing_is_not_ok():
    nothing = Report("empty", claims=(Claim("tying", "", NOT_APPLICABLE),))
    assert not nothing.ok


def test_inputs_that_do_not_fit_are_the_callers_error():
    with pytest.raises(ShapeError, match="C_in=4"):
        certify(Linear(4, 5, backend=backend64()), X[..., :3])


def test_a_pair_is_known_by_the_name_of_its_operation(any64):
    """In every table."""
    names = [field.name for field in fields(Ops)]
    assert [name_of(getattr(any64.ops, op)) for op in names] == names


class Careless:
    """A stranger's layer with state of every kind, which its forward and backward change."""

    def __init__(self):
        self.weight = SimpleNamespace(data=np.ones(4, dtype=np.float32), grad=np.full(4, 7.0, dtype=np.float32))
        self.calls, self.count, self.rng = ["made"], 0, np.random.default_rng(3)
        self.running, self.notes = np.zeros(4), {"calls": 0}

    def named_parameters(self):
        yield "weight", self.weight

    def forward(self, x):
        self.calls.append("forward")
        self.count += 1
        self.notes["calls"] += 1
        self.seen = x
        self.running += x.mean(axis=(0, 1)) + self.rng.normal(size=4)
        return x * self.weight.data, x

    def backward(self, dy, cache):
        self.weight.grad = self.weight.grad + (dy * cache).sum(axis=(0, 1))
        if self.count > 4:
            raise RuntimeError("tired")
        return dy * self.weight.data


@pytest.mark.parametrize("run", [certify, *INVARIANTS.values()], ids=lambda run: getattr(run, "name", None))
def test_everything_is_restored_even_after_an_error(run):
    layer = Careless()
    data, grad, running, state = layer.weight.data, layer.weight.grad, layer.running, layer.rng.bit_generator.state
    if run is certify:
        assert "raised RuntimeError: tired" in str(run(layer, X)["determinism"])
    else:
        run(layer, X)
    assert (layer.weight.data is data, layer.weight.grad is grad, layer.running is running) == (True, True, True)
    assert (data.tolist(), grad.tolist(), running.tolist()) == ([1] * 4, [7] * 4, [0] * 4)
    assert (layer.calls, layer.count, layer.notes) == (["made"], 0, {"calls": 0})
    assert not hasattr(layer, "seen")
    assert layer.rng.bit_generator.state == state


def test_a_model_keeps_its_arrays_values_and_gradients(dtype):
    model = small_model(backend=get_backend("numpy", dtype=dtype), num_decoder_layers=1)
    model.arena.grads[...] = 0.5
    values, data = model.arena.values.copy(), model.generator.weight.data
    assert certify(model, SRC, TGT).ok
    assert model.generator.weight.data is data
    assert np.shares_memory(data, model.arena.values)
    assert np.array_equal(model.arena.values, values)
    assert np.all(model.arena.grads == 0.5)


def test_strangers_need_no_base_class():
    class Once(Gate):
        """Its cache is a list that backward empties."""

        causal = True

        def forward(self, x):
            y, cache = super().forward(x)
            return y, [cache]

        def backward(self, dy, cache):
            if not cache:
                raise CacheUsedError("used")
            return super().backward(dy, cache.pop())

    report = certify(Once(), X)
    assert report.ok, str(report)
    assert report["causality"].holds


def test_masks_of_layers_are_found_whatever_they_govern():
    mask = AttentionMask(np.array([[True, True, False], [True, False, False]]), causal=True)
    layer = EncoderLayer(4, 2, 6, dropout=0.2, backend=backend64())
    report = certify(layer, X, context=Context(mask, key=RandomKey(1)))
    assert report["causality"].holds
    assert report["padding-invariance"].holds
