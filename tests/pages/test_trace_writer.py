"""A page is written whole or not at all, holds the trace and its evidence, and is what its own page of docs says."""

import json
import re
from pathlib import Path

import pytest

import npformer as npf
from npformer.errors import OutputError
from npformer.pages import trace_page, write_trace_page

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
