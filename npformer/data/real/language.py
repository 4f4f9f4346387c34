"""Classifies the language of a date, one of twenty.

    "5 mars 1987"  →  fr, but also sv

Some phrases are the same in several languages, so no model can tell which one was meant. Every
(phrase, language) pair counts once, so the best possible answer is right once for each phrase:

    ceiling = distinct phrases / (phrase, language) pairs      0.97 for the held-out ones

A hash of the phrase holds out one in ten, so a phrase of several languages is on one side in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from npformer.data.batches import Example
from npformer.data.example_task import ExampleTask
from npformer.data.real.date_phrases import Form, random_days, write
from npformer.data.real.extra import expect_extra
from npformer.data.real.user_cache import cached_lines, digest
from npformer.data.splits import divided
from npformer.data.tokenizer import Characters
from npformer.errors import whole_number

LANGUAGES = (
    "bg", "cs", "da", "de", "el", "en", "es", "fi", "fr", "hu", "it", "lt", "nl", "pl", "pt", "ro", "ru", "sv",
    "tr", "uk",
)  # fmt: skip
_FORMS: tuple[Form, ...] = ("long", "full")
_VERSION = 1


def language(*, seed: int = 0, count: int = 1_000) -> ExampleTask:
    """The long and full form of count random days in every language; the seed determines batches, not the days.

    Raises ConfigError for fewer than 20 days, or if Babel is missing.
    """
    days = whole_number("count", count, at_least=20, at_most=1_000_000)
    version = expect_extra("babel", "language")
    lines = cached_lines(f"language-{_VERSION}-{version}-{days}.tsv", lambda: _make(days))
    examples = [Example(*line.split("\t")) for line in lines]
    train, held_out = divided((example, example.source) for example in examples)
    tokenizer = Characters.learn(source for source, _ in train)
    return ExampleTask(
        "language", "classify", tokenizer, train, held_out, seed=seed, digest=digest(lines), classes=LANGUAGES
    )


def ceiling(examples: Sequence[Example]) -> float:
    """The highest accuracy, on distinct examples, of any answer that depends only on the phrase."""
    return len({source for source, _ in examples}) / len(examples)


def _make(days: int) -> Iterable[str]:
    chosen = sorted(set(islice(random_days(_VERSION), days)))
    return dict.fromkeys(
        f"{write(day, locale, form).text}\t{locale}" for day in chosen for locale in LANGUAGES for form in _FORMS
    )
