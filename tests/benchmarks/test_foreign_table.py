"""The table of the page is that of the two documents, and the documents count what they list."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.foreign import table

PAGE = table.PAGE.read_text(encoding="utf-8")
FIRST, LAST = table.load(table.FIRST), table.load(table.LAST)


def test_the_page_is_up_to_date() -> None:
    assert table.with_table(PAGE, FIRST, LAST) == PAGE, "run python -m benchmarks.foreign.table"


@pytest.mark.parametrize("document", [FIRST, LAST], ids=["first", "last"])
def test_a_document_counts_what_it_lists(document: Any) -> None:
    counted = Counter((each["origin"], each["verdict"]) for each in document["results"])
    for (origin, verdict), count in counted.items():
        assert document["summary"][origin][verdict] == count
    assert {origin: counts["pairs"] for origin, counts in document["summary"].items()} == dict(
        Counter(each["origin"] for each in document["results"])
    )
    causes = Counter((each["origin"], each["cause_is"]) for each in document["results"] if "cause_is" in each)
    assert causes == {
        (origin, key.removeprefix("cause ")): count
        for origin, counts in document["summary"].items()
        for key, count in counts.items()
        if key.startswith("cause ")
    }


def test_another_score_is_another_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = copy.deepcopy(LAST)
    other["summary"]["mutant"]["WRONG"] -= 1
    changed = table.with_table(PAGE, FIRST, other)
    assert changed != PAGE
    page = tmp_path / "page.md"
    page.write_text(changed, encoding="utf-8")
    monkeypatch.setattr(table, "PAGE", page)
    assert table.main() == 0
    assert page.read_text(encoding="utf-8") == PAGE


def test_false_accusations_are_shown_even_if_there_are_none() -> None:
    shown = table.table(LAST, LAST)
    assert "| … called WRONG | 0 | 0 |" in shown
    assert "exception" not in shown


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected the marks <!-- generated .* each once"):
        table.with_table("# A page\n", FIRST, LAST)
