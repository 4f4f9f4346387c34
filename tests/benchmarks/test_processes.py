"""The benchmarks of several processes: runs that are compared to the bit, and what a step exchanges."""

import json

import pytest

from benchmarks import page_tables, same_bits
from npformer.cli import train
from npformer.cli.main import build_parser
from npformer.optim.adam import Adam
from tests.benchmarks.rows import row
from tests.benchmarks.test_pages import document
from tests.engine.thread_ranks import in_threads


@pytest.fixture
def threads(monkeypatch):
    """Ranks of same_bits are threads."""

    def run(words, count):
        args = build_parser().parse_args(["train", *words])
        in_threads(count, lambda ranks: train._train(args, ranks))

    monkeypatch.setattr(same_bits, "train", run)


WORDS = "--task reverse --kernels numpy --processes 2 --steps 4 --json"


def test_runs_of_several_ranks_are_compared_with_that_of_one(threads, call, tmp_path):
    path = tmp_path / "same.json"
    assert call(same_bits.main, WORDS + " --save", path).code == 0
    rows = json.loads(path.read_text())["results"]
    assert [(one["processes"], one["shared_moments"]) for one in rows] == [
        ("2", False), ("2", True), ("2 → 1 → 2 → 2", True)
    ]  # fmt: skip
    assert {one["sha256"] for one in rows} == {rows[0]["sha256"]}
    shown = page_tables.same_bits([document(*rows, benchmark="same_bits")])
    counted = sum(one["compared"] for one in rows)
    assert f"| reverse | numpy | 4 | 2; 2 → 1 → 2 → 2 | 3 | {counted} | 0 |" in shown


def test_one_bit_is_seen(threads, call, monkeypatch):
    """Parts of the moments are updated with a rate that is larger by one place of its last bit."""
    step = Adam.step

    def other(self, lr=None, parts=None):
        step(self, lr * (1 + 2**-20) if self._held.stop < self.arena.size else lr, parts)

    monkeypatch.setattr(Adam, "step", other)
    ended = call(same_bits.main, WORDS)
    assert ended.code == 1
    rows = json.loads(ended.out[ended.out.index('{\n "benchmark"') :])["results"]
    assert [bool(one["differs"]) for one in rows] == [False, True, True]


def test_wrong_words_are_refused(refused):
    assert "expected a multiple of 4, got 6" in refused(same_bits.main, "--steps 6")
    assert "expected 1 <= number < 65, got 0" in refused(same_bits.main, "--processes 0")


def test_a_table_tells_what_a_step_exchanges():
    told = {"exchange_seconds": 0.002, "bytes": 946_400, "messages": 3}
    ours = row("npformer-numba, 2 processes", 0.01, exchanges=[told, told])
    alone = row("npformer-numba, alone", 0.02, exchanges=[told | {"messages": 0}])
    theirs = row("torch-fast", 0.05)
    result = {"size": "small", "dropout": 0.1, "contenders": [ours, alone, theirs], "holds": True}
    shown = page_tables.processes([document(result, benchmark="processes")])
    assert "| small | npformer-numba, 2 processes | 10.00 | 5.00 (4.00 … 6.00) | 2.00 | 946 | 3 | 0 % |" in shown
    assert "| small | torch-fast, 2 processes | 50.00 |" in shown
    assert "| small | npformer-numba, alone | 20.00 | 5.00 (4.00 … 6.00) | – | – | – | 0 % |" in shown
