"""A link or a pipe in place of a file that a run writes is neither followed nor waited for."""

import os

import pytest

from npformer.errors import DataError, OutputError
from npformer.training import RunDirectory, metrics


@pytest.fixture(params=["link", "pipe"])
def run(request, tmp_path):
    """A run whose lock and metrics are no regular files."""
    run, mine = RunDirectory(tmp_path), tmp_path / "mine"
    mine.write_text('{"step": 9}\n')
    for path in (run.path / "lock", run.metrics_path):
        os.symlink(mine, path) if request.param == "link" else os.mkfifo(path)
    yield run
    assert mine.read_text() == '{"step": 9}\n'


def test_it_is_no_lock(run):
    with pytest.raises(OutputError, match=r"lock: expected to write there, .* but a link, a pipe or"), run.lock():
        pytest.fail("held")


def test_it_is_no_log(run):
    log = metrics.MetricsLog(run.metrics_path)
    with pytest.raises(OutputError, match=r"expected to write the run's metrics, got: .* a link, a pipe.*move it away"):
        log.append({"step": 10})
    for read in (lambda: log.truncate_after(3), lambda: metrics.read(run.metrics_path)):
        with pytest.raises(DataError, match=r"expected to read it, got: .* a link, a pipe"):
            read()
