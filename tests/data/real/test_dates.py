"""Phrases are Babel's; each means one day; tags say what each word is."""

import datetime
from itertools import islice

import pytest

from npformer.data.marked_words import spans
from npformer.data.real.date_phrases import FORMS, LOCALES, ambiguous_forms, random_days, write
from npformer.data.real.dates import TAGS, dates, tags
from tests.data.epochs import epoch

babel_dates = pytest.importorskip("babel.dates", reason="dates are made with Babel")
DAYS = list(islice(random_days(5), 12))


@pytest.mark.parametrize("form", FORMS)
def test_a_phrase_is_what_babel_writes_and_knows_its_fields(form):
    for day in DAYS:
        for locale in LOCALES:
            phrase = write(day, locale, form)
            assert phrase.text == babel_dates.format_date(day, form, locale)
            assert len(phrase.fields()) == len(phrase.text)
            fields = {field: part for part, field in phrase.parts}
            assert int(fields["day"]) == day.day
            assert int(fields["year"]) in (day.year, day.year % 100)


def test_without_its_locale_a_phrase_means_one_day_everywhere():
    uncertain = ambiguous_forms()
    days = [datetime.date(year, month, day) for year in (1951, 2012) for month in range(1, 13) for day in (3, 11)]
    meanings = {}
    for day in days:
        for locale in LOCALES:
            for form in FORMS:
                if (locale, form) not in uncertain:
                    meanings.setdefault(write(day, locale, form).text, set()).add(day)
    assert len(meanings) > 1_000
    assert all(len(days) == 1 for days in meanings.values())


def test_a_source_has_one_target_and_a_day_one_side():
    task = dates(count=1_500)
    train, held_out = epoch(task), task.held_out()
    assert len(dict(train)) == len(train) == task.train_size
    assert all(datetime.date.fromisoformat(target).isoformat() == target for _, target in train + held_out)
    assert {day for _, day in train}.isdisjoint({day for _, day in held_out})
    assert 0.05 < len(held_out) / (len(held_out) + len(train)) < 0.15


def test_tags_name_each_word():
    task = tags(count=5_000)
    assert task.classes == ("[PAD]", *TAGS)
    seen = set()
    for source, target in task.held_out():
        words, names = [source[start:stop] for start, stop in spans(source)], target.split()
        for word, name in zip(words, names, strict=True):
            assert name not in ("day", "year") or word.isdigit(), (source, target)
            assert word.isalnum() or name != "day"
            seen.add(name)
        assert {"day", "month", "year"} <= set(names)
    assert seen == set(TAGS)


def test_a_known_phrase_is_tagged_as_it_should_be():
    tagged = dict(tags(count=5_000).held_out())
    locale_first = [(source, target) for source, target in tagged.items() if source.startswith("en_US ")]
    assert locale_first
    for source, target in locale_first:
        assert target == "other other other month other day other year", source


def test_a_word_that_begins_with_a_sign_is_tagged_by_what_follows():
    tagged = {source: target for source, target in tags(count=5_000).held_out() if "曜日" in source}
    assert tagged
    for source, target in tagged.items():  # "ja 1987年3月5日木曜日": 日 belongs to no field
        assert target == "other year other month other day weekday", source
