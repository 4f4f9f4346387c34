"""docs/trace-format.md: its block runs, and it tells every key that there is."""

import numpy as np

from npformer.see.record.models import showcase
from npformer.see.record.trace import FORMAT, KEYS, LIMIT, VERSION
from tests.markdown import names_after, text_of

PAGE = text_of("docs/trace-format.md")
#: Keys whose parts have names of the target's own: sequences, files, functions, inputs, and what a line set.
NAMED = {"tokens", "sources", "functions", "params", "values", "arguments"}


def test_the_block_runs(tmp_path, capsys):
    names = names_after("docs/trace-format.md", tmp_path)
    assert "layer_norm" in capsys.readouterr().out
    assert names["dx"].shape == (2, 3, 4)
    assert np.array_equal(names["again"].arrays[names["call"]["gradients"][0]["value"]], names["dx"])


def keys_in(part):
    """The keys of a document's part and of all parts in it, without those that a target names."""
    if isinstance(part, dict):
        for key, inner in part.items():
            yield key
            yield from (
                (found for each in inner.values() for found in keys_in(each))
                if key in NAMED and inner
                else keys_in(inner)
            )
    elif isinstance(part, list):
        yield from (found for each in part for found in keys_in(each))


def test_every_key_is_told():
    document = showcase().document
    found = set(keys_in(document))
    assert document.keys() == KEYS <= found
    assert len(found) > 45
    assert [key for key in found if f"`{key}`" not in PAGE and f'"{key}"' not in PAGE] == []


def test_its_numbers_are_those_of_the_code():
    assert f"at most {LIMIT // 1_000_000} megabytes" in PAGE
    assert f"This page describes version {VERSION}." in PAGE
    assert f'`"{FORMAT}"`' in PAGE
