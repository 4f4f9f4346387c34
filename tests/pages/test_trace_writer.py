"""A page is written whole or not at all, holds the trace and its evidence, and is what its own page of docs says.

The terms of a gradient add up to it, and two witnesses agree with it.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import npformer as npf
from npformer.errors import OutputError
from npformer.pages import trace_page, trace_writer, write_trace_page
from npformer.pages.trace_writer import evidence_of

GUIDE = Path(__file__).parents[2] / "docs" / "trace-page.md"


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_a_page_holds_the_trace_and_the_evidence_of_each_gradient(shown):
    data = data_of(trace_page(shown))
    assert data["trace"] == json.loads(json.dumps(shown.document))
    assert set(shown.arrays) <= set(data["places"])
    for call in shown.calls:
        expected = {gradient["name"] for gradient in call["gradients"]} if call["kind"] == "operation" else set()
        assert set(data["evidence"][str(call["id"])]) == expected
    assert data["bugs"] == []


def test_a_trace_read_from_json_has_a_page_without_evidence():
    read = npf.Trace.from_json(npf.trace("relu").to_json())
    assert data_of(trace_page(read))["evidence"] == {}


def test_a_page_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    found = npf.trace("relu")
    write_trace_page(found, tmp_path / "page.html")
    before = (tmp_path / "page.html").read_bytes()
    with pytest.raises(OutputError, match=r"page.html.*: expected a path that can be written"):
        write_trace_page(found, tmp_path / "page.html" / "inside.html")

    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("npformer.pages.trace_writer.write_atomically", full)
    with pytest.raises(OutputError, match="the disk is full"):
        write_trace_page(found, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_the_guides_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(code, str(GUIDE), "exec"), {})
    assert (tmp_path / "layer_norm.html").stat().st_size > 10_000


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
