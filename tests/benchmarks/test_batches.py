"""The time of batches: every task is there, and a slow one of reverse is told."""

import pytest

from benchmarks import batches
from npformer.run.tasks import TASKS


@pytest.mark.parametrize(("seconds", "code", "verdict"), [(0.15e-3, 0, "0.150 ms, at most 0.15: within"),
                                                          (0.16e-3, 1, "0.160 ms, at most 0.15: OVER")])  # fmt: skip
def test_a_slow_batch_is_told(seconds, code, verdict, call, monkeypatch):
    monkeypatch.setattr(batches, "task", lambda name: name)
    monkeypatch.setattr(batches, "seconds", lambda task, steps: [seconds if task == "reverse" else 1.0] * steps)
    ended = call(batches.main, "--steps 3")
    assert (ended.code, ended.err) == (code, "")
    *rows, last = ended.out.splitlines()
    assert last == f"reverse: {verdict}"
    assert {row.split()[0] for row in rows[1:]} == TASKS.keys() - {"pairs"}


def test_each_step_is_timed():
    assert len(batches.seconds(batches.task("reverse"), 5)) == 5
