"""Dates as people write them in many languages, to ISO 8601; and the same dates, tagged word by word.

    dates   "Donnerstag, 5. März 1987"  →  1987-03-05            characters
            "en_US 3/5/87"              →  1987-03-05            with the locale if others would read another day
    tags    "en_US 3/5/87"              →  other other other month other day other year    words and marks

A hash of the day holds out one in ten: no held-out day is trained on in any language.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from npformer.data.batches import Example
from npformer.data.example_task import ExampleTask
from npformer.data.marked_words import MarkedWords, spans
from npformer.data.real.date_phrases import FIELDS, FORMS, LOCALES, ambiguous_forms, random_days, write
from npformer.data.real.extra import expect_extra
from npformer.data.real.user_cache import cached_lines, digest
from npformer.data.splits import divided, unit_hash
from npformer.data.tokenizer import Characters, Tokenizer
from npformer.data.vocabulary import SEQUENCE
from npformer.errors import whole_number

TAGS = (*dict.fromkeys(FIELDS.values()), "other")
_VERSION = 1
_BY_LETTER = {tag[0]: tag for tag in TAGS}


class _DateLine(NamedTuple):
    day: str  # in ISO 8601
    text: str
    fields: str  # a letter for each character of text


def dates(*, seed: int = 0, count: int = 40_000) -> ExampleTask:
    """count phrases of all LOCALES and forms to ISO dates; the seed decides batches, not the phrases.

    Raises ConfigError for a count below 1,000, or if Babel is missing.
    """
    lines, check = _phrases("dates", count)
    examples = {Example(line.text, line.day): line.day for line in lines}
    tokenizer = Characters.learn((text for example in examples for text in example), special=SEQUENCE)
    train, held_out = _sides(examples)
    return ExampleTask("dates", "translate", tokenizer, train, held_out, seed=seed, digest=check)


def tags(*, seed: int = 0, count: int = 40_000) -> ExampleTask:
    """The phrases of `dates` and one of TAGS for each of their words and marks. Raises as dates."""
    lines, check = _phrases("tags", count)
    train, held_out = _sides({Example(line.text, " ".join(_tags_of(line))): line.day for line in lines})
    tokenizer: Tokenizer = MarkedWords.learn(source for source, _ in train)
    return ExampleTask("tags", "tag", tokenizer, train, held_out, seed=seed, digest=check, classes=TAGS)


def _phrases(task: str, count: int) -> tuple[list[_DateLine], str]:
    """The phrases and their digest."""
    count = whole_number("count", count, at_least=1_000, at_most=1_000_000)
    version = expect_extra("babel", task)
    lines = cached_lines(f"date-phrases-{_VERSION}-{version}-{count}.tsv", lambda: _make(count))
    return [_DateLine(*line.split("\t")) for line in lines], digest(lines)


def _make(count: int) -> Iterable[str]:
    """Each day in each locale and each form in turn."""
    uncertain = ambiguous_forms()
    ways = [(locale, form) for form in FORMS for locale in LOCALES]
    for number, day in enumerate(islice(random_days(_VERSION), count)):
        locale, form = ways[number % len(ways)]
        phrase = write(day, locale, form)
        first = f"{locale} " if (locale, form) in uncertain else ""
        yield "\t".join(_DateLine(day.isoformat(), first + phrase.text, "o" * len(first) + phrase.fields()))


def _tags_of(line: _DateLine) -> list[str]:
    """For each word the field of its letters; if there are several, the first."""
    letters = (line.fields[start:stop].replace("o", "")[:1] for start, stop in spans(line.text))
    return [_BY_LETTER[letter or "o"] for letter in letters]


def _sides(days: Mapping[Example, str]) -> tuple[list[Example], list[Example]]:
    """Training and held-out examples, given the day of each."""
    train, held_out = divided(days.items())
    return train, sorted(held_out, key=lambda example: unit_hash(example.source))
