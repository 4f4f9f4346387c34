"""Dates as people write them, in many languages, with the field of each letter.

The patterns come from the Unicode CLDR, through Babel: "EEEE, d. MMMM y" is "Donnerstag, 5. März 1987" in
German. A phrase is assembled field by field, so each letter's field is known.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

FIRST_YEAR, LAST_YEAR = 1950, 2049  # a century, so that two digits determine the year
Form: TypeAlias = Literal["short", "medium", "long", "full"]
FORMS: tuple[Form, ...] = ("short", "medium", "long", "full")
#: The field of each pattern letter; other text is signs and small words.
FIELDS = {"d": "day", "M": "month", "L": "month", "y": "year", "E": "weekday", "c": "weekday"}
LOCALES = (
    "bg", "ca", "cs", "cy", "da", "de", "el", "en_GB", "en_US", "es", "et", "eu", "fi", "fr", "ga", "gl", "hr",
    "hu", "id", "is", "it", "ja", "ko", "lt", "lv", "nb", "nl", "pl", "pt", "ro", "ru", "sk", "sl", "sq", "sv",
    "tr", "uk", "vi", "zh",
)  # fmt: skip


class Phrase(NamedTuple):
    """A date as text: parts, and the field of each ("" for none)."""

    parts: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(part for part, _ in self.parts)

    def fields(self) -> str:
        """For each character of the text the first letter of its field: d m y w, or o for none."""
        return "".join((field or "other")[0] * len(part) for part, field in self.parts)


def write(day: datetime.date, locale: str, form: Form) -> Phrase:
    """The date in the locale's short, medium, long or full form."""
    from babel.dates import DateTimeFormat

    fields: Any = DateTimeFormat(day, locale)
    return Phrase(
        tuple(
            (value, "") if kind == "chars" else (fields[value[0] * value[1]], FIELDS[value[0]])
            for kind, value in _pattern(locale, form)
        )
    )


@cache
def _pattern(locale: str, form: Form) -> list[tuple[str, Any]]:
    """("chars", text) or ("field", (letter, count)), in their order."""
    from babel.dates import get_date_format, tokenize_pattern

    return list(tokenize_pattern(get_date_format(form, locale).pattern))


def random_days(seed: int) -> Iterator[datetime.date]:
    """An endless series of days from FIRST_YEAR to LAST_YEAR, the same on every machine."""
    draw = random.Random(seed).random  # only random() gives the same numbers in every version of Python
    first = datetime.date(FIRST_YEAR, 1, 1)
    count = (datetime.date(LAST_YEAR, 12, 31) - first).days + 1
    while True:
        yield first + datetime.timedelta(days=int(draw() * count))


@cache
def ambiguous_forms() -> frozenset[tuple[str, Form]]:
    """The (locale, form) pairs whose phrases may mean another day in another locale.

    These are all forms with the month or the year in two digits, since 3/4/05 can be three days, and forms with a
    name that means different months in two locales: "listopada" is November in Polish and October in Croatian.
    """
    forms = {(locale, form) for locale in LOCALES for form in FORMS if _in_digits(locale, form)}
    meanings: dict[str, set[tuple[str, Form, int]]] = {}
    for locale in LOCALES:
        for form in FORMS:
            for month in range(1, 13):
                phrase = write(datetime.date(1987, month, 15), locale, form)
                name = " ".join(part.strip(". ").lower() for part, field in phrase.parts if field == "month")
                meanings.setdefault(name, set()).add((locale, form, month))
    for uses in meanings.values():
        if len({month for _, _, month in uses}) > 1:
            forms |= {(locale, form) for locale, form, _ in uses}
    return frozenset(forms)


def _in_digits(locale: str, form: Form) -> bool:
    counts = dict(value for kind, value in _pattern(locale, form) if kind == "field")
    return counts.get("M", 3) < 3 or counts.get("L", 3) < 3 or counts.get("y") == 2
