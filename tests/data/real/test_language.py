"""Phrases keep their languages together, and the ceiling is what the best possible answer reaches."""

from collections import Counter, defaultdict

import pytest

from npformer.data import Example
from npformer.data.real.language import LANGUAGES, ceiling, language


def test_the_ceiling_is_the_best_answers_accuracy():
    examples = [Example("a", "x"), Example("a", "y"), Example("b", "x"), Example("c", "z"), Example("c", "x")]
    assert ceiling(examples) == 3 / 5
    task = language(count=100)
    held_out = task.held_out()
    votes = defaultdict(Counter)
    for source, target in held_out:
        votes[source][target] += 1
    best = sum(counter.most_common(1)[0][1] for counter in votes.values())
    assert ceiling(held_out) == pytest.approx(best / len(held_out))
    assert 0.95 < ceiling(held_out) < 0.99
    assert sum(len(counter) > 1 for counter in votes.values()) > 5, "some phrases are of several languages"


def test_twenty_languages_are_as_frequent_as_each_other():
    held_out = language(count=200).held_out()
    counts = Counter(target for _, target in held_out)
    assert set(counts) == set(LANGUAGES)
    assert len(LANGUAGES) == 20
    assert max(counts.values()) < 2 * min(counts.values())
    assert {target for _, target in held_out[: len(held_out) // 4]} == set(LANGUAGES)
