"""npformer bench: the report on a step, the profile's table, and refused options."""

import re

import pytest

from npformer.extras import install

FAST = "--device numpy --kernels plain --steps 3"


def test_a_step_in_words(cli):
    done = cli(f"bench {FAST}").quiet()
    lines = done.lines
    assert lines[0] == "training steps of size tiny with numpy (plain) on CPU, float32"
    told = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines[1:]}
    assert list(told) == ["median", "spread", "steps", "tokens/s", "loss", "size", "threads"]
    assert told["threads"] == "1"
    assert told["steps"].startswith("3 in ")
    median = float(told["median"].split()[0].replace(",", ""))  # of more than a second it has one
    assert float(told["tokens/s"].split()[0].replace(",", "")) == pytest.approx(768e3 / median, rel=0.01)
    assert told["size"].startswith("V 16, d_model 64,")
    assert told["size"].endswith("batch 64, dropout 0.1")


def test_a_step_in_numbers(cli):
    document = cli(f"bench {FAST} --dropout 0 --dtype float64 --json").document
    assert (document["size"], document["dropout"], document["dtype"], document["kernels"]) == (
        "tiny",
        0,
        "float64",
        "plain",
    )
    assert document["preset"]["d_model"] == 64
    assert len(document["all_ms"]) == document["steps"] == 3
    assert min(document["all_ms"]) == document["best_ms"] <= document["median_ms"] == sorted(document["all_ms"])[1]
    assert document["tokens_per_second"] == pytest.approx(768e3 / document["median_ms"])
    assert document["last_loss"] < document["first_loss"]
    assert document["threads"] >= 1


@pytest.mark.parametrize(
    ("kernels", "threads", "note"),
    [
        ("numpy", 1, "1, for a batch this small; BLAS threads: "),
        ("numba", 2, "2, with one BLAS thread each"),
    ],
)
def test_it_says_how_many_threads_share_the_batch(cli, monkeypatch, kernels, threads, note):
    if kernels == "numba":
        pytest.importorskip("numba")
    monkeypatch.setattr("npformer.engine.host.default_threads", lambda: 2)
    command_line = "bench --device numpy --kernels numba --steps 1"
    assert cli(command_line).lines[-1] == "threads   2"
    assert cli(f"{command_line} --json").document["threads"] == 2


def test_the_table_of_a_profile(cli):
    done = cli(f"bench --profile {FAST}").quiet()
    lines = done.lines
    assert lines[0] == "the parts of a training step of size tiny with numpy (plain) on CPU, float32"
    assert re.search(r"^feed_forward +forward +4 +[\d.]+ +[\d.]+ %$", done.out, re.M)
    assert re.search(r"^the step +[\d.]+ +100\.0 %$", done.out, re.M)
    document = cli(f"bench --profile {FAST} --json").document
    assert sum(row["seconds"] for row in document["rows"]) == pytest.approx(document["step_seconds"])
    assert document["threads"] == 1
    assert {*document["rows"][0]} == {"op", "direction", "calls", "seconds", "share"}


def test_the_report_fits_the_terminal(cli, terminal):
    terminal(60)
    assert cli(f"bench {FAST} --steps 1").width <= 60


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--size huge", "expected one of tiny, small, mid, base, got 'huge'"),
        ("--kernels fast", "expected one of auto, plain, numpy, numba, cuda, got 'fast'"),
        ("--dropout 1", "dropout: expected a rate with 0 <= rate < 1"),
        ("--steps 0", "--steps: expected an integer >= 1, got 0"),
        ("--seconds nan", "--seconds: expected a number > 0, got nan"),
        ("--steps 1 --seconds 1", "not allowed with argument"),
    ],
)
def test_what_is_refused(words, message, cli):
    cli(f"bench {words}").refused(message)


def test_compiled_kernels_without_numba(cli, monkeypatch):
    monkeypatch.setattr("npformer.backend.select.find_spec", lambda name: None)
    cli("bench --device numpy --kernels numba").refused("Numba is not installed", install("fast"))
