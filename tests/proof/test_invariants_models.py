"""Invariants have something to say of every model, and of a norm over the batch only what is true."""

import numpy as np
import pytest

from npformer.functional import AttentionMask
from npformer.layers import EncoderLayer
from npformer.models import Decoder
from npformer.proof import catalogue, certify

CASES = {case.name: case for case in catalogue()}
DECODERS = [case for case in CASES.values() if case.name.startswith("Decoder: ")]
TAGGERS = [case for case in CASES.values() if case.name.startswith(("Encoder: tokens", "Encoder: sequence"))]


@pytest.mark.parametrize("case", DECODERS, ids=lambda case: case.name)
def test_decoders_are_certified_causal_and_blind_to_padding(case, numpy64):
    report = certify(case.build(numpy64), *case.inputs, **case.options)
    assert report.ok, str(report)
    assert report["causality"].holds
    assert report["padding-invariance"].holds
    assert report["ignored-tokens"].holds
    assert report["tying"].holds == ("tied" in case.name)


@pytest.mark.parametrize("case", TAGGERS, ids=lambda case: case.name)
def test_encoders_are_blind_to_padding_and_look_ahead(case, numpy64):
    report = certify(case.build(numpy64), *case.inputs, **case.options)
    assert report["padding-invariance"].holds
    assert not report["causality"].applies


def test_a_decoder_that_looks_ahead_or_at_padding_is_found(numpy64, monkeypatch):
    case = CASES["Decoder: none, full, post"]
    for hidden, failing in ((True, "causality"), (False, "padding-invariance")):
        with monkeypatch.context() as patch:
            patch.setattr(
                "npformer.models.decoder.AttentionMask",
                lambda key_visible, causal, hidden=hidden: AttentionMask(key_visible if hidden else None, not hidden),
            )
            model = case.build(numpy64)
            assert isinstance(model, Decoder)
            assert certify(model, np.array([[3, 0, 4, 6, 2], [6, 5, 0, 3, 1]]))[failing].fails


def test_sequences_under_batch_norm_are_alone_in_inference(numpy64):
    training = CASES["BatchNorm: training, padding"]
    report = certify(training.build(numpy64), *training.inputs, **training.options)
    assert not report["sequences-alone"].applies
    assert report["batch-order"].holds
    inference = CASES["BatchNorm: inference"]
    assert certify(inference.build(numpy64), *inference.inputs)["sequences-alone"].holds
    layer = EncoderLayer(4, 2, 6, norm="batch", backend=numpy64)
    (x,) = inference.inputs
    assert certify(layer, x)["sequences-alone"].holds
