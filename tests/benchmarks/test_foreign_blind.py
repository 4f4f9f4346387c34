"""The second list of foreign pairs: its right pairs are right, its mistakes are mistakes, and a third are tiny."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.foreign import blind
from benchmarks.foreign.blind import BLIND_RIGHT, BLIND_THEMES, blind_wrong
from benchmarks.foreign.listed import RIGHT, THEMES
from benchmarks.foreign.pair import KINDS, gradients
from tests.benchmarks.test_foreign import test_a_right_pair_agrees_with_central_differences as agrees_with_differences

BLIND_WRONG = blind_wrong()


def error(wrong):
    """The largest difference from the right backward, over its tensor's largest entry; infinite if not finite."""
    right = gradients(wrong.pair, wrong.pair.backward)
    with np.errstate(all="ignore"):
        found = gradients(wrong.pair, wrong.backward)
    assert [g.shape for g in found] == [g.shape for g in right]
    errors = [float(np.max(np.abs(a - n)) / np.max(np.abs(n))) for a, n in zip(found, right, strict=True)]
    return max(each if np.isfinite(each) else np.inf for each in errors)


def test_there_are_sixty_mistakes_of_all_kinds_and_their_names_are_unique():
    names = [each.name for each in (*BLIND_RIGHT, *BLIND_WRONG)]
    assert len(BLIND_WRONG) == 60
    assert 20 <= len(BLIND_RIGHT) <= 25
    assert len(set(names)) == len(names)
    assert not {pair.name for pair in BLIND_RIGHT} & {pair.name for pair in RIGHT}
    assert {kind for each in BLIND_WRONG for kind in each.kinds} == set(KINDS)
    assert {len(pair.edits) for pair in BLIND_RIGHT} == {2, 3, 4}


def test_every_label_says_what_is_wrong_and_what_would_fix_it():
    parts = {edit.what: edit.what.split(" -> ") for pair in BLIND_RIGHT for edit in pair.edits}
    assert [what for what, halves in parts.items() if len(halves) != 2 or not all(halves)] == []


def test_the_list_has_its_own_files_and_they_are_short():
    files = {path.stem: path for path in Path(blind.__file__).parent.glob("blind_*.py")}
    assert set(files) == {theme.__name__.rpartition(".")[2] for theme in BLIND_THEMES}
    assert [name for name, path in files.items() if path.read_text(encoding="utf-8").count("\n") > 250] == []
    assert not set(BLIND_THEMES) & set(THEMES)


@pytest.mark.parametrize("pair", BLIND_RIGHT, ids=lambda pair: pair.name)
def test_a_right_pair_agrees_with_central_differences(pair):
    agrees_with_differences(pair)


@pytest.mark.parametrize("wrong", BLIND_WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_pair_differs(wrong):
    assert error(wrong) > 1e-10


def test_a_third_of_the_mistakes_are_tiny():
    tiny = [each.name for each in BLIND_WRONG if 1e-10 < error(each) < 1e-6]
    assert 15 <= len(tiny) <= 25
