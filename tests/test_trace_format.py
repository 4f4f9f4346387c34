"""docs/trace-format.md: its block runs, and it tells every key that there is."""

from typing import get_args, get_origin, get_type_hints, is_typeddict

import numpy as np
import pytest

from npformer.see.record import document as trace_json
from npformer.see.record.models import showcase
from npformer.see.record.trace import LIMIT
from tests.markdown import names_after, text_of

PAGE = text_of("docs/trace-format.md")
SCHEMA = [kind for kind in vars(trace_json).values() if getattr(kind, "__total__", None) is not None]

#: Keys that are left out where there is nothing to say.
OPTIONAL = {"of", "inside"}


def test_the_block_runs(tmp_path, capsys):
    names = names_after("docs/trace-format.md", tmp_path)
    assert "layer_norm" in capsys.readouterr().out
    assert names["dx"].shape == (2, 3, 4)
    assert np.array_equal(names["again"].arrays[names["call"]["gradients"][0]["value"]], names["dx"])


@pytest.mark.parametrize("kind", SCHEMA, ids=lambda kind: kind.__name__)
def test_every_key_is_told(kind):
    missing = {key for key in kind.__annotations__ if f"`{key}`" not in PAGE and f'"{key}"' not in PAGE}
    assert missing == set()


def expect(kind, part):
    """Fail unless a part of a document has the keys that its type says, and so have all parts in it."""
    if is_typeddict(kind):
        assert part.keys() | OPTIONAL >= kind.__annotations__.keys() >= part.keys()
        for name, inner in get_type_hints(kind).items():
            expect(inner, part.get(name))
    elif get_origin(kind) in (list, dict) and part is not None:
        for each in part.values() if isinstance(part, dict) else part:
            expect(get_args(kind)[-1], each)
    elif is_typeddict(next(iter(get_args(kind)), None)) and part is not None:
        expect(get_args(kind)[0], part)


def test_a_document_has_the_keys_of_the_schema():
    expect(trace_json.Document, showcase().document)


def test_its_numbers_are_those_of_the_code():
    assert f"at most {LIMIT // 1_000_000} megabytes" in PAGE
    assert f"This page describes version {trace_json.VERSION}." in PAGE
    assert f'`"{trace_json.FORMAT}"`' in PAGE
