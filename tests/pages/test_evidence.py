"""The terms of a gradient add up to it, and two witnesses agree with it."""

import numpy as np

import npformer as npf
from npformer.pages import trace_writer
from npformer.pages.trace_writer import evidence_of


def shown_of(trace, number):
    call = trace.calls[number]
    names = {gradient["name"]: gradient["of"] for gradient in call["gradients"]}
    return call, evidence_of(trace.recording.calls[number], trace.recording.seen[number], names)


def test_every_gradient_of_every_operation_has_its_terms_and_witnesses(shown):
    checked = 0
    for number, each in enumerate(shown.calls):
        call, found = shown_of(shown, number)
        assert set(found) == ({g["name"] for g in call["gradients"]} if each["kind"] == "operation" else set())
        for gradient in call["gradients"] if found else ():
            value, beside = shown.arrays[gradient["value"]], found[gradient["name"]]
            total = sum(part.reshape(*value.shape, -1).sum(axis=-1) for part in beside.terms)
            size = max(float(np.max(np.abs(value))), *(float(np.max(np.abs(part))) for part in beside.terms))
            assert np.max(np.abs(total - value)) <= 1e-12 * size
            assert np.max(np.abs(beside.by_complex - value)) <= 1e-12 * size
            assert np.max(np.abs(beside.by_central - value)) <= 1e-7 * size
            checked += value.size
    assert checked > 1000


def test_a_forward_that_cannot_be_asked_with_complex_numbers_has_one_witness():
    def forward(x):
        return np.abs(x) * x, x

    def backward(dy, x):
        return 2 * np.abs(x) * dy

    _, found = shown_of(npf.trace((forward, backward), np.array([[0.5, -2.0]])), 0)
    assert found["dx"].by_complex is None
    assert found["dx"].by_central is not None


def test_too_many_terms_are_left_out(monkeypatch):
    monkeypatch.setattr(trace_writer, "MOST_TERMS", 100)
    assert not shown_of(npf.trace("linear"), 0)[1]
