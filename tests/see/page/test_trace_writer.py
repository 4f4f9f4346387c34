"""A page is written whole or not at all, holds the trace and its evidence, and is what its own page of docs says.

The terms of a gradient add up to it, and two witnesses agree with it. The entry at which a page opens is the number
that was asked for, to the last bits.
"""

import base64
import json
import re
import zlib

import numpy as np
import pytest

import npformer as npf
from npformer.errors import OutputError
from npformer.models import build_model
from npformer.run.options import complete
from npformer.see.page import trace_page, trace_writer, write_trace_page
from npformer.see.page.document import Pack
from npformer.see.page.trace_writer import witnessed
from tests.markdown import names_after


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def numbers_in(page):
    """The numbers that a page has, of all its arrays, and the letters that they take."""
    (text,) = re.findall(r'<script type="application/json" id="numbers">"(.*?)"</script>', page)
    return len(zlib.decompress(base64.b64decode(text))) // 8, len(text)


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
    record = npf.trace("relu")
    write_trace_page(record, tmp_path / "page.html")
    before = (tmp_path / "page.html").read_bytes()
    with pytest.raises(OutputError, match=r"expected to write '.*page.html/inside.html'"):
        write_trace_page(record, tmp_path / "page.html" / "inside.html")

    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("npformer.io.output_files.write_atomically", full)
    with pytest.raises(OutputError, match="the disk is full"):
        write_trace_page(record, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_the_guides_code_runs(tmp_path):
    names_after("docs/trace-page.md", tmp_path)
    assert (tmp_path / "layer_norm.html").stat().st_size > 10_000


def shown_of(trace, number, only=None):
    """A call, and what the witnesses say of its gradients by name: (complex step, central differences, entry)."""
    call = trace.calls[number]
    names = {gradient["name"]: gradient["of"] for gradient in call["gradients"]}
    found = witnessed(trace.recording.calls[number], trace.recording.seen[number], names, only)
    return call, {name: said for name, *said in found}


def test_every_gradient_of_every_operation_has_its_witnesses(shown):
    checked = 0
    for number, each in enumerate(shown.calls):
        call, entry = shown_of(shown, number)
        assert set(entry) == ({g["name"] for g in call["gradients"]} if each["kind"] == "operation" else set())
        for gradient in call["gradients"] if entry else ():
            value, (by_complex, by_central, _) = shown.arrays[gradient["value"]], entry[gradient["name"]]
            size = max(float(np.max(np.abs(value))), 0.01)
            assert np.max(np.abs(by_complex - value)) <= 1e-12 * size
            assert np.max(np.abs(by_central - value)) <= 1e-7 * size
            checked += value.size
    assert checked > 1000


def test_a_forward_that_cannot_be_asked_with_complex_numbers_has_one_witness():
    def forward(x):
        return np.abs(x) * x, x

    def backward(dy, x):
        return 2 * np.abs(x) * dy

    _, entry = shown_of(npf.trace((forward, backward), np.array([[0.5, -2.0]])), 0)
    assert entry["dx"][0] is None
    assert entry["dx"][1] is not None


def test_of_many_gradients_only_the_one_that_is_asked_has_its_witnesses(monkeypatch):
    monkeypatch.setattr(trace_writer, "MOST_TERMS", 100)
    trace = npf.trace("linear")
    assert not shown_of(trace, 0)[1]
    value = trace.arrays[trace.calls[0]["gradients"][1]["value"]]
    ((name, (by_complex, _, only)),) = shown_of(trace, 0, ("dweight", 3))[1].items()
    assert (name, only) == ("dweight", 3)
    assert by_complex == pytest.approx(value.reshape(-1)[3], rel=1e-12)


def test_a_large_array_is_left_out_and_the_row_that_is_asked_is_kept(monkeypatch):
    monkeypatch.setattr(trace_writer, "MOST_NUMBERS", 12)
    trace = npf.trace("linear")
    data = data_of(trace_page(trace, opens={"call": 0, "what": "gradients", "name": "dweight", "flat": 3}))
    gradient = trace.calls[0]["gradients"][1]["value"]
    array = trace.arrays[gradient]
    told = data["left_out"][gradient]
    assert told["shape"] == list(array.shape)
    assert told["mean"] == pytest.approx(array.mean())
    assert list(told["rows"]) == [str(3 - 3 % array.shape[-1])]
    (one,) = data["sums"]["0"]["backward"][gradient]
    assert all(len(factor) == 5 for factor in one["products"][0][2]), "its factors are told themselves"


def test_the_page_of_the_default_tasks_longest_word_is_below_3_5_mb_and_none_above_8():
    """Whatever the model: MOST_PACKED numbers, of which no bytes are alike, and a document of three times the calls."""
    options = complete({"run": {"task": "reverse"}, "data": {}, "model": {}, "training": {}}, 29, 13)
    longest = options.data.max_length + 1
    tokens = np.random.default_rng(0).integers(3, 29, (3, 1, longest))
    model = build_model(options.model, backend=npf.get_backend("numpy", dtype="float64", kernels="plain"))
    page = trace_page(npf.trace(model, *tokens[:2], targets=tokens[2]))
    assert len(page) < 3_500_000
    pack = Pack()
    pack.add(np.random.default_rng(0).normal(size=trace_writer.MOST_PACKED))
    assert len(pack.text()) + 3 * (len(page) - numbers_in(page)[1]) < 8_000_000


def test_of_many_numbers_the_page_has_the_smaller_arrays_and_what_its_tour_shows(shown, monkeypatch):
    monkeypatch.setattr(trace_writer, "ALL_NUMBERS", 2_000)
    data = data_of(trace_page(shown))
    kept = [array.size for name, array in shown.arrays.items() if name not in data["left_out"]]
    left = [array.size for name, array in shown.arrays.items() if name in data["left_out"]]
    assert sum(kept) <= 2_000 < sum(kept) + left.count(min(left)) * min(left)
    assert max(kept) < min(left)
    for stop in (data["tour"]["loss"], data["tour"]["weight"]):
        made = shown.calls[stop["call"]]["gradients"]
        name = next(each["value"] for each in made if each["name"] == stop["name"])
        width = shown.arrays[name].shape[-1]
        assert str(stop["flat"] - stop["flat"] % width) in data["left_out"][name]["rows"]
        assert data["sums"][str(stop["call"])]["backward"][name]


def test_a_page_that_is_full_tells_no_more_sums(shown, monkeypatch):
    monkeypatch.setattr(trace_writer, "MOST_PACKED", 16_000)
    page = trace_page(shown)
    assert 16_000 <= numbers_in(page)[0] < 16_500
    told = data_of(page)["sums"]
    assert not told["0"]["forward"], "the loss comes first"
    assert told[str(shown.calls[-1]["id"])]["backward"]


def test_a_line_of_another_form_has_the_terms_of_each_entry_of_dy():
    def forward(x):
        return x * x, x

    def backward(dy, x):
        return sum(2 * x * part for part in [dy])

    x = np.array([[0.5, -2.0], [1.0, 2.0]])
    trace = npf.trace((forward, backward), x)
    data = data_of(trace_page(trace))
    (one,) = data["sums"]["0"]["backward"][trace.calls[0]["gradients"][0]["value"]]
    ((count, _, ((text, _, _, _), (name, *_))),) = one["products"]
    assert (count, text, name) == (4, "∂y/∂x", "dy")
