"""The metrics of a run survive kills, full disks and resumes, and garbage is never passed over."""

import errno
import json
import math
import os

import numpy as np
import pytest

from npformer.errors import DataError, OutputError
from npformer.run.metrics import MetricsLog, read
from tests.failing_system import full_disk
from tests.run.runs import failing

RECORDS = [{"step": step, "loss": 1 / step, "note": "naïve\r\n"} for step in range(1, 6)]


@pytest.fixture
def log(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for record in RECORDS:
        log.append(record)
    return log


def test_records_come_back_line_by_line(log):
    assert read(log.path) == RECORDS
    assert [json.loads(line) for line in log.path.read_text().splitlines()] == RECORDS


def test_no_file_is_no_records(tmp_path):
    assert read(tmp_path / "absent") == []
    MetricsLog(tmp_path / "absent").truncate_after(3)
    assert os.listdir(tmp_path) == []


def test_numbers_that_are_not_finite_survive_as_strict_json(tmp_path):
    log = MetricsLog(tmp_path / "m")
    log.append({"a": math.nan, "b": math.inf, "c": np.float32(-np.inf), "d": np.int64(3), "e": None})
    json.loads(log.path.read_text(), parse_constant=lambda word: pytest.fail(word))
    (back,) = read(log.path)
    assert math.isnan(back.pop("a"))
    assert back == {"b": math.inf, "c": -math.inf, "d": 3, "e": None}


def test_what_is_not_json_is_refused_and_nothing_written(log):
    with pytest.raises(DataError, match=r"expected numbers, texts.*object"):
        log.append({"x": object()})
    assert read(log.path) == RECORDS


def test_a_torn_last_line_is_left_out_at_every_length(log):
    data = log.path.read_bytes()
    for length in range(len(data)):
        log.path.write_bytes(data[:length])
        records = read(log.path)
        assert records == RECORDS[: len(records)]
        assert len(records) >= data[:length].count(b"\n")
        MetricsLog(log.path).append({"step": 9})
        assert read(log.path) == [*records, {"step": 9}]


@pytest.mark.parametrize("garbage", [b"{", b"5", b'{"a": \xff}', b"text", b'{"a": 1} {"b": 2}', b"[" * 9999])
def test_garbage_is_named_by_line_and_left_alone(log, garbage):
    lines = log.path.read_bytes().splitlines(keepends=True)
    for number in range(len(lines) + 1):  # also as the last line: it has its end, so it is not torn
        data = b"".join([*lines[:number], garbage + b"\n", *lines[number:]])
        log.path.write_bytes(data)
        with pytest.raises(DataError, match=rf"metrics\.jsonl, line {number + 1}: expected a JSON object"):
            read(log.path)
        with pytest.raises(DataError, match=f"line {number + 1}"):
            log.truncate_after(3)
        assert log.path.read_bytes() == data


@pytest.mark.parametrize("step", range(7))
@pytest.mark.parametrize("tail", [b"", b'{"step": 2, "lo', b'{"step": 2}'])
def test_resume_drops_later_steps(log, step, tail):
    log.append({"words": "no step"})
    log.path.write_bytes(log.path.read_bytes() + tail)
    log.truncate_after(step)
    expected = [
        *RECORDS[:step],
        {"words": "no step"},
        *([{"step": 2}] if tail.endswith(b"}") and step > 1 else []),
    ]
    assert read(log.path) == expected
    assert log.path.read_bytes().endswith(b"\n")
    log.append({"step": step + 1})
    assert read(log.path) == [*expected, {"step": step + 1}]


def test_a_failed_resume_keeps_the_file(log, monkeypatch):
    before = log.path.read_bytes()
    full_disk(monkeypatch)
    with pytest.raises(OutputError, match="disk is full"):
        log.truncate_after(2)
    assert log.path.read_bytes() == before
    assert os.listdir(log.path.parent) == [log.path.name]


def test_a_full_disk_leaves_no_half_line(log, monkeypatch):
    before = log.path.read_bytes()
    full_disk(monkeypatch)
    with pytest.raises(OutputError, match=r"disk is full.*earlier lines are intact.*free some space"):
        log.append({"step": 6})
    monkeypatch.undo()
    assert log.path.read_bytes() == before
    log.append({"step": 6})
    assert read(log.path) == [*RECORDS, {"step": 6}]


def test_half_a_line_that_cannot_be_taken_back_is_removed_later(log, monkeypatch):
    full_disk(monkeypatch)
    monkeypatch.setattr(os, "ftruncate", failing(errno.EIO))
    with pytest.raises(OutputError):
        log.append({"step": 6})
    monkeypatch.undo()
    assert not log.path.read_bytes().endswith(b"\n")
    log.append({"step": 7})
    assert read(log.path) == [*RECORDS, {"step": 7}]


def test_unwritable_and_unreadable_places_are_named(tmp_path):
    with pytest.raises(OutputError, match=r"absent/m: expected to write.*No such file"):
        MetricsLog(tmp_path / "absent" / "m").append({})
    with pytest.raises(DataError, match="directory"):
        read(tmp_path)
