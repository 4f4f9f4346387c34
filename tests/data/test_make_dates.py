"""The dates data set is sound, and its script writes the shipped file again byte for byte."""

import datetime
import importlib
from pathlib import Path

import pytest

SHIPPED = Path(__file__).parents[2] / "examples" / "data" / "dates.tsv"


@pytest.fixture
def script():
    pytest.importorskip("babel", reason="the script that made dates.tsv needs Babel")
    return importlib.import_module("examples.make_dates")


def shipped_pairs():
    return [line.split("\t") for line in SHIPPED.read_text(encoding="utf-8").removesuffix("\n").split("\n")]


def test_targets_are_dates_that_the_source_spells():
    for source, target in shipped_pairs():
        day = datetime.date.fromisoformat(target)
        assert day.isoformat() == target
        assert 1950 <= day.year <= 2049
        digits = "".join(c if c.isdigit() else " " for c in source).split()
        assert sorted(digits) == sorted([str(day.day), str(day.year)]), source


def test_the_script_writes_the_same_bytes_again(script, tmp_path):
    core = pytest.importorskip("babel.core")
    version = core.get_cldr_version() if hasattr(core, "get_cldr_version") else "unknown"
    if version != script.CLDR_VERSION:
        pytest.skip(f"dates.tsv was made with CLDR {script.CLDR_VERSION}, here is {version}")
    assert script.main(["--out", str(tmp_path / "dates.tsv")]) == 0
    assert (tmp_path / "dates.tsv").read_bytes() == SHIPPED.read_bytes()


def test_an_existing_file_is_replaced_only_by_force(script, tmp_path, capsys):
    path = tmp_path / "dates.tsv"
    path.write_text("precious")
    assert script.main(["--out", str(path), "--count", "5"]) == 2
    assert path.read_text() == "precious"
    assert "exists; choose another --out, or replace it with --force" in capsys.readouterr().err
    assert script.main(["--out", str(path), "--count", "5", "--force"]) == 0
    assert path.read_text(encoding="utf-8").count("\n") == 5
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("count", ["0", "100001"])
def test_a_count_out_of_bounds_is_refused(script, count):
    with pytest.raises(SystemExit, match="2"):
        script.main(["--count", count])
