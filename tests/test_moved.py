"""Old import paths are refused with the new ones, which exist."""

import re
from importlib import import_module
from importlib.util import find_spec

import pytest

from npformer.moved import MOVED


@pytest.mark.parametrize("old", [*MOVED, "npformer.proof.strategies"])
def test_an_old_path_is_refused_with_the_new_one(old):
    with pytest.raises(ModuleNotFoundError, match="it has moved; import npformer") as refused:
        import_module(old)
    for new in re.findall(r"npformer[\w.]*\w", str(refused.value).partition("import ")[2]):
        assert find_spec(new), new


def test_a_path_that_never_was_is_not_found_as_usual():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'npformer\.prove'"):
        import_module("npformer.prove")
