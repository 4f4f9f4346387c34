"""Invariants hold on everything in the catalogue, say so in 80 columns, and leave their target as it was."""

import json
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.errors import CacheUsedError, GradientError, ShapeError
from npformer.functional import AttentionMask
from npformer.layers import EncoderLayer, LayerNorm, Linear, RandomKey
from npformer.models import Transformer, TransformerConfig
from npformer.proof import catalogue
from npformer.proof.invariants import INVARIANTS, ClaimResults, certify

CASES = catalogue()
X = np.random.default_rng(0).normal(size=(2, 3, 4))
TOKENS = (np.array([[3, 1, 2], [4, 2, 0]]), np.array([[1, 4, 3], [1, 2, 0]]))


@cache
def backend64():
    """NumPy with its fastest kernels; inside of tests, since they may have to be compiled."""
    return get_backend("numpy", dtype="float64")


def certified(case, backend):
    return certify(case.build(backend), *case.inputs, name=case.name, device=backend.device, **case.options)


def small_model(**changes):
    config = TransformerConfig(5, 5, d_model=4, num_heads=2, d_ff=6, num_encoder_layers=1, num_decoder_layers=1)
    return Transformer(config, backend=get_backend("numpy", dtype=changes.get("dtype", "float64")))


@cache
def certified_before(name):
    """The same of a case of the catalogue on NumPy, once for all tests."""
    (case,) = (case for case in CASES if case.name == name)
    return certified(case, backend64())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_invariant_holds_on_the_catalogue(case):
    report = certified_before(case.name)
    assert report.ok, str(report)


def test_every_invariant_has_something_to_say():
    cases = [case for case in CASES if "tied" in case.name or case.name == "MultiHeadAttention: self"]
    held = {row.name for case in cases for row in certified_before(case.name).rows if row.holds}
    assert held == set(INVARIANTS)


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("EncoderLayer: pre, gelu", tuple(INVARIANTS)),
        ("Transformer: post, gelu, tied", ("causality", "padding-invariance", "ignored-tokens", "tying")),
    ],
)
def test_it_runs_on_a_device_that_is_not_the_host(case, names, strict64):
    (one,) = (found for found in CASES if found.name == case)
    for name in names:
        row = INVARIANTS[name](one.build(strict64), *one.inputs, device=strict64.device, **one.options)
        assert not row.fails, f"{name}: {row}"


def test_the_text_fits_80_columns_and_names_what_failed():
    class Wrong(Linear):
        def backward(self, dy, cache):
            self.weight.grad[...] = 0
            return super().backward(dy, cache)

    report = certify(Wrong(4, 5, backend=backend64()), X, name="a name that is longer than " + "any line " * 12)
    assert max(map(len, str(report).splitlines())) <= 80
    assert not report.ok
    assert "accumulation" in str(report)
    assert "DOES NOT HOLD: gradient of weight after 1" in " ".join(str(report).split())
    assert "claimed: backward adds to the gradients" in " ".join(str(report).split())
    with pytest.raises(GradientError, match="accumulation"):
        report.raise_if_failed()


def test_results_are_data():
    report = certify(LayerNorm(4, backend=backend64()), X)
    found = json.loads(report.to_json())
    assert found["ok"] is True
    assert found["name"] == "LayerNorm"
    assert [row["name"] for row in found["claims"]] == list(INVARIANTS)
    assert report["tying"].reason
    assert not report["tying"].applies
    assert report["determinism"].holds


def test_a_report_on_nothing_is_not_ok():
    assert not ClaimResults("empty").ok


def test_inputs_that_do_not_fit_are_the_callers_error():
    with pytest.raises(ShapeError, match="C_in=4"):
        certify(Linear(4, 5, backend=backend64()), X[..., :3])


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


@pytest.mark.parametrize("name", [None, *INVARIANTS])
def test_everything_is_restored_even_after_an_error(name):
    layer = Careless()
    data, grad, running, state = layer.weight.data, layer.weight.grad, layer.running, layer.rng.bit_generator.state
    (certify if name is None else INVARIANTS[name])(layer, X)
    assert layer.weight.data is data
    assert layer.weight.grad is grad
    assert np.array_equal(data, np.ones(4))
    assert np.array_equal(grad, np.full(4, 7.0))
    assert layer.running is running
    assert not running.any()
    assert (layer.calls, layer.count, layer.notes) == (["made"], 0, {"calls": 0})
    assert not hasattr(layer, "seen")
    assert layer.rng.bit_generator.state == state


def test_an_error_in_backward_is_a_finding():
    report = certify(Careless(), X)
    assert "raised RuntimeError: tired" in str(report["determinism"])


def test_a_model_keeps_its_arrays_values_and_gradients(dtype):
    model = small_model(dtype=dtype)
    model.arena.grads[...] = 0.5
    values, data = model.arena.values.copy(), model.generator.weight.data
    assert certify(model, *TOKENS).ok
    assert model.generator.weight.data is data
    assert np.shares_memory(data, model.arena.values)
    assert np.array_equal(model.arena.values, values)
    assert np.all(model.arena.grads == 0.5)


def test_strangers_need_no_base_class():
    class Doubler:
        """y = w·x with w of one number per channel; its cache is a list that backward empties."""

        causal = True

        def __init__(self):
            self.w = SimpleNamespace(data=np.full(4, 2.0), grad=np.zeros(4))

        def named_parameters(self):
            yield "w", self.w

        def forward(self, x):
            return x * self.w.data, [x]

        def backward(self, dy, cache):
            if not cache:
                raise CacheUsedError("used")
            self.w.grad += (dy * cache.pop()).sum(axis=(0, 1))
            return dy * self.w.data

    report = certify(Doubler(), X)
    assert report.ok, str(report)
    assert report["causality"].holds


def test_masks_of_layers_are_found_whatever_they_govern():
    mask = AttentionMask(np.array([[True, True, False], [True, False, False]]), causal=True)
    layer = EncoderLayer(4, 2, 6, dropout=0.2, backend=backend64())
    report = certify(layer, X, mask=mask, key=RandomKey(1))
    assert report["causality"].holds
    assert report["padding-invariance"].holds
    assert not certify(layer, X)["padding-invariance"].applies
