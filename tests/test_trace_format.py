"""docs/trace-format.md: its block runs, and it tells every key that there is."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npformer.proof import trace_json
from npformer.proof.showcase import showcase
from npformer.proof.trace import LIMIT

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "trace-format.md").read_text(encoding="utf-8")
SCHEMA = [kind for kind in vars(trace_json).values() if getattr(kind, "__total__", None) is not None]

#: Keys that are left out where there is nothing to say.
OPTIONAL = {"of", "inside"}


def test_the_block_runs():
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.S | re.M)
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(block, "docs/trace-format.md", "exec"), names)
    assert "layer_norm" in printed.getvalue()
    assert names["dx"].shape == (2, 3, 4)
    assert np.array_equal(names["again"].arrays[names["call"]["gradients"][0]["value"]], names["dx"])


@pytest.mark.parametrize("kind", SCHEMA, ids=lambda kind: kind.__name__)
def test_every_key_is_told(kind):
    missing = {key for key in kind.__annotations__ if f"`{key}`" not in PAGE and f'"{key}"' not in PAGE}
    assert missing == set()


def test_a_document_has_the_keys_of_the_schema():
    document = showcase().document

    def expect(kind: Any, found: Any):
        assert found.keys() | OPTIONAL >= kind.__annotations__.keys() >= found.keys()

    expect(trace_json.Document, document)
    for call in document["calls"]:
        expect(trace_json.CallOf, call)
        for one in [*call["inputs"], *call["outputs"], *call["cache"], *call["upstream"], *call["gradients"]]:
            expect(trace_json.Named, one)
        for each in call["added"]:
            expect(trace_json.Added, each)
        for parts in call["params"].values():
            for part in parts:
                expect(trace_json.PartOf, part)
        for way in (call["forward"], call["backward"]):
            expect(trace_json.Way, way)
            for line in way["lines"]:
                expect(trace_json.LineOf, line)
                for frame in line.get("inside", []):
                    expect(trace_json.FrameOf, frame)
    for parameter in document["parameters"]:
        expect(trace_json.ParameterOf, parameter)
    for residual in document["residuals"]:
        expect(trace_json.ResidualOf, residual)
    for source in document["sources"].values():
        expect(trace_json.SourceOf, source)
        for function in source["functions"].values():
            expect(trace_json.FunctionOf, function)


def test_its_numbers_are_those_of_the_code():
    assert f"at most {LIMIT // 1_000_000} megabytes" in PAGE
    assert f"This page describes version {trace_json.VERSION}." in PAGE
    assert f'`"{trace_json.FORMAT}"`' in PAGE
