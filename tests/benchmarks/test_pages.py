"""The pages agree with the files under benchmarks/results and contain no other measurements."""

import copy
import json
import math
import re
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import machine, measured, page_tables, pages, report, speed_chart
from npformer.cli import gradcheck, museum, train
from npformer.cli.main import build_parser
from tests.benchmarks import rows

DOCUMENTS = pages.load(measured.RESULTS.glob("*.json"))
ABOUT = {"processor": "A Processor, 2 cores for this process", "date": "2030-01-01 00:00 UTC", "commit": "c0ffee",
         "command": "python -m benchmarks.train_step"}  # fmt: skip


def training(size, rate, kernels, ratio, **more):
    """A table of one size, with one row of npformer and one of PyTorch, made up."""
    fast = {"median": ratio, "low": ratio - 0.1, "high": ratio + 0.1}
    row = rows.row(f"npformer-{kernels}", 0.01, times_as_fast=fast, **more)
    peer = rows.row("torch-fast", 0.01 * ratio, peak_bytes=2 * 10**8)
    return {"size": size, "dropout": rate, "contenders": [row, peer], "times_as_fast_as": "torch-fast"}


def document(*results, benchmark="train_step", **about):
    """A made-up result file of train_step."""
    settings = {"device": "numpy"}
    return {
        "file": "x.json",
        "benchmark": benchmark,
        "machine": ABOUT | about,
        "settings": settings,
        "results": results,
    }


SOME = [
    document(training("tiny", 0.1, "numba", 3.25), training("base", 0.1, "numba", 1.75, others_share=0.3)),
    document(training("tiny", 0.0, "numpy", 1.1), date="2030-01-02 00:00 UTC"),
]


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_a_page_is_up_to_date(page):
    text = page.read_text()
    assert pages.filled(text, DOCUMENTS) == text, "run python -m benchmarks.pages"


def test_the_charts_are_up_to_date(tmp_path):
    speed_chart.write(DOCUMENTS, tmp_path)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (pages.PICTURES / path.name).read_bytes(), "run python -m benchmarks.pages"
        assert path.stat().st_size <= 8_000


def told(command):
    """How long a command took when it was measured, in the words of a help text."""
    words = {5: "about five seconds", 10: "about ten seconds", 20: "about twenty seconds", 40: "less than a minute",
             60: "about a minute", 120: "about two minutes"}  # fmt: skip
    (seconds,) = (found["seconds"] for found in DOCUMENTS if found.get("name") == command)
    return words[min(words, key=lambda each: abs(math.log(each / seconds)))]


@pytest.mark.parametrize("command", [gradcheck, museum])
def test_the_help_says_how_long_a_command_took(command):
    name = command.__name__.rpartition(".")[2]
    said = re.search(rf"^  npformer {name}  +every.*, in (.*)$", command.EXAMPLES, re.M)[1]
    assert said == told(name)


def test_readme_and_the_help_say_how_long_the_first_command_takes():
    """As it was measured without compiled kernels, which the first command does not install."""
    said = told("reverse-numpy")
    assert said == train.TAKES
    assert f"After {said} on two cores it ends like this:" in (pages.ROOT / "README.md").read_text()
    assert f"train reverse                                   {said} on two CPU cores" in train.EXAMPLES
    assert f"train reverse           reverse words, in {said}\n" in build_parser().epilog


#: A score of made-up pairs.
HISTORY = "foreign-first.json"


@pytest.mark.parametrize("one", [x for x in DOCUMENTS if x["file"] != HISTORY], ids=lambda one: one["file"])
def test_a_result_says_where_when_and_how_it_was_made(one):
    assert {"processor", "date", "versions", "command", "commit"} <= one["machine"].keys()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", one["machine"]["date"])


def test_a_result_without_a_machine_is_no_hindrance_for_the_chart():
    history = next(one for one in DOCUMENTS if one["file"] == HISTORY)
    assert "machine" not in history
    assert speed_chart.latest([history, *SOME]) == speed_chart.latest(SOME)


def test_what_is_measured_is_shown_and_the_newest_counts():
    text = page_tables.training([*SOME, document(training("tiny", 0.1, "numba", 3.5), date="2031-01-01 00:00 UTC")])
    lines = text.splitlines()
    assert lines[0] == "**A Processor, 2 cores for this process**"
    assert lines[2] == "|  | tiny | base |", "no column for small and mid, of which nothing is known"
    ratios = next(line for line in lines if line.startswith("| times as fast"))
    assert ratios == "| times as fast as PyTorch | 3.50 (3.40 … 3.60) | 1.75 (1.65 … 1.85) |"
    assert "| cores that others used | 0 % | **30 %** |" in lines
    assert "| most memory of PyTorch, MB | 200 | 200 |" in lines
    assert text.count("`python -m benchmarks.train_step`; A Processor, 2 cores; 203") == 3


def test_every_part_says_how_to_measure_what_is_missing():
    not_measured = {"lessons", "options", "defaults", "grammar"}
    for name in [name for name in pages.PARTS if name not in not_measured and not name.startswith("explain_")]:
        assert "python -m benchmarks." in pages.PARTS[name]([]), name


FOREIGN = [each for each in DOCUMENTS if each["benchmark"] == "foreign"]


@pytest.mark.parametrize("one", FOREIGN, ids=lambda one: one["file"])
def test_a_score_counts_what_it_lists(one):
    counted = Counter((each["origin"], each["verdict"]) for each in one["results"])
    for (origin, verdict), count in counted.items():
        assert one["summary"][origin][verdict] == count
    origins = Counter(each["origin"] for each in one["results"])
    assert {origin: counts["pairs"] for origin, counts in one["summary"].items()} == dict(origins)
    causes = Counter((each["origin"], each["cause_is"]) for each in one["results"] if "cause_is" in each)
    assert causes == {
        (origin, key.removeprefix("cause ")): count
        for origin, counts in one["summary"].items()
        for key, count in counts.items()
        if key.startswith("cause ")
    }


def test_false_accusations_are_shown_even_if_there_are_none():
    (last,) = (each for each in FOREIGN if each["file"] == "foreign-last.json")
    shown = page_tables.foreign([last, last | {"file": "foreign-first.json"}])
    assert "| … called WRONG | 0 | 0 |" in shown
    assert "exception" not in shown
    other = copy.deepcopy(last)
    other["summary"]["mutant"]["WRONG"] -= 1
    assert page_tables.foreign([other, last | {"file": "foreign-first.json"}]) != shown


def test_a_mark_without_its_end_or_its_part_is_refused():
    mark = "<!-- generated by python -m benchmarks.pages: {} -->\n"
    with pytest.raises(ValueError, match="expected each mark"):
        pages.filled(mark.format("training"), [])
    with pytest.raises(ValueError, match=r"expected a part of reverse, speed, .*, got nothing"):
        pages.filled(mark.format("nothing") + "<!-- end -->\n", [])


def test_the_command_writes_pages_and_charts(tmp_path, monkeypatch):
    page, results = tmp_path / "page.md", tmp_path / "results"
    results.mkdir()
    page.write_text("<!-- generated by python -m benchmarks.pages: chart -->\nold\n<!-- end -->\n")
    for name, one in zip(("a.json", "b.json"), SOME, strict=True):
        (results / name).write_text(json.dumps(one))
    for name, value in {"PAGES": (page,), "PICTURES": tmp_path, "RESULTS": results, "ROOT": tmp_path}.items():
        monkeypatch.setattr(pages, name, value)
    assert pages.main() == 0
    assert "(compiled, dropout 0.1, sizes tiny to base) runs 1.8 to 3.2 times as fast" in page.read_text()
    assert "old" not in page.read_text()
    svg = (tmp_path / "speed-dark.svg").read_text()
    assert "compiled, dropout 0.1: tiny 3.2, base 1.8; NumPy alone, no dropout: tiny 1.1." in svg
    assert [svg.count(f'bar {kind}"') for kind in ("c0", "rest c1")] == [3, 2], "each bar, and the key of its kind"


def test_commands_are_understood():
    for name, command in measured.COMMANDS.items():
        program, *words = measured.runnable(command.words)
        if words[:2] == ["-m", "npformer"]:
            assert not build_parser().parse_known_args(words[2:])[1], name
        elif words[0] == "-m" and words[1] != "pytest":
            place = machine.ROOT / words[1].replace(".", "/")
            assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), name
        assert Path(program).is_file()


def test_a_command_is_measured_and_kept(monkeypatch, tmp_path, call, refused):
    code = "print(1); print(); print(2)"
    monkeypatch.setitem(measured.COMMANDS, "two", measured.Command("two", f"python -c '{code}'", "2"))
    monkeypatch.setitem(measured.COMMANDS, "bad", measured.Command("bad", "python -c 'raise SystemExit(3)'"))
    monkeypatch.setattr(measured, "RESULTS", tmp_path)
    call(measured.main, "two").fine()
    document = json.loads((tmp_path / "two.json").read_text())
    assert document["output"] == ["1", "2"]
    assert document["machine"]["command"] == f"python -c '{code}'"
    assert measured.shown(document) == ["2"]
    assert call(measured.main, "bad").code == 1
    assert not (tmp_path / "bad.json").exists(), "what failed is not kept"
    assert "expected names from --list, got nothing" in refused(measured.main, "nothing")
    call(measured.main, "--list").fine().says("npformer certify")


def test_a_result_says_which_command_and_commit(monkeypatch, tmp_path):
    monkeypatch.setattr(machine.sys, "orig_argv", ["/usr/bin/python3", "-m", "benchmarks.decode", "--size", "a b"])
    about = machine.describe([], True, "numpy", ["float32"])
    assert about["command"] == "python -m benchmarks.decode --size 'a b'"
    assert re.fullmatch(r"[0-9a-f]{10}(?: and changes)?|unknown", about["commit"])
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    assert machine.commit() == "unknown"
    report.keep({"a": "µ"}, tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": "µ"}
    report.keep({}, None)
