"""Options that the benchmarks refuse: error messages and exit codes."""

import sys
from collections.abc import Callable

import pytest

from benchmarks import decode, machine, ops, options, train_step, turns
from npformer.backend import cupy_problem

Main = Callable[[], int]
MAINS = pytest.mark.parametrize("main", [train_step.main, decode.main, ops.main], ids=["train_step", "decode", "ops"])


@pytest.fixture
def without(monkeypatch):
    """without("torch") makes the package appear not installed."""

    def hide(package):
        there = options.installed
        monkeypatch.setattr(options, "installed", lambda name: name != package and there(name))

    return hide


def refusal(main, arguments, monkeypatch, capsys):
    """The error message of a command that must end with code 2 before it starts anything."""
    monkeypatch.setattr(turns.subprocess, "Popen", lambda *_, **__: pytest.fail("expected that nothing is started"))
    monkeypatch.setattr(sys, "argv", ["benchmark", *arguments])
    assert main() == 2
    return capsys.readouterr().err


@MAINS
def test_without_torch_one_error_says_what_to_install(main, without, monkeypatch, capsys):
    without("torch")
    error = refusal(main, ["--kernels", "plain"], monkeypatch, capsys)
    assert error == (
        "benchmarks: --against torch: expected PyTorch, it is not installed; in npformer's folder: "
        "pip install '.[bench]' (a CPU build will do), or use --against none\n"
    )


@MAINS
def test_compiled_kernels_need_numba_and_auto_works_without_it(main, without, monkeypatch, capsys):
    without("numba")
    error = refusal(main, ["--kernels", "numba"], monkeypatch, capsys)
    assert "expected Numba, it is not installed" in error
    assert "pip install '.[fast]'" in error
    parser = options.new_parser("x", "", "", "tiny", "auto,numpy,plain", 1)
    assert options.checked(parser.parse_args(["--against", "none"])).kernels == ["numpy", "plain"]


@MAINS
@pytest.mark.skipif(cupy_problem() is None, reason="a GPU answers")
def test_cupy_without_a_gpu(main, monkeypatch, capsys):
    error = refusal(main, ["--device", "cupy", "--against", "none"], monkeypatch, capsys)
    assert "--device cupy: " in error
    assert "or use --device numpy" in error


@pytest.mark.parametrize(
    ("main", "arguments", "words"),
    [
        (train_step.main, ["--size", "huge"],
         "--size: expected names from tiny, small, mid, base, separated by commas, got 'huge'"),
        (train_step.main, ["--dropout", "0.1,1"], "--dropout: expected 0 <= number < 1, got 1"),
        (train_step.main, ["--dropout", "much"], "--dropout: expected numbers separated by commas, got 'much'"),
        (train_step.main, ["--seconds", "0"], "--seconds: expected a number > 0, got 0"),
        (train_step.main, ["--rounds", "0"], "--rounds: expected an integer >= 1, got 0"),
        (train_step.main, ["--kernels", "fast"], "--kernels: expected names from numba, numpy, plain, auto"),
        (decode.main, ["--tokens", "0"], "--tokens: expected an integer >= 1, got 0"),
        (decode.main, ["--batch", "0"], "--batch: expected 1 <= number < 4097, got 0"),
        (ops.main, ["--op", "convolution"], "--op: expected names from linear, relu"),
        (ops.main, ["--threads", "0"], "--threads: expected an integer >= 1, got 0"),
        (ops.main, ["--save", "nowhere/x.json"], "--save: expected a .json file in an existing folder, got"),
        (decode.main, ["--save", "decode.txt"], "--save: expected a .json file in an existing folder, got"),
    ],
)  # fmt: skip
def test_bad_options_are_refused(main, arguments, words, monkeypatch, capsys):
    assert words in refusal(main, ["--against", "none", *arguments], monkeypatch, capsys)


def test_contenders_do_not_inherit_settings_that_slow_one_side_down(monkeypatch):
    slowing = {"OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    for name in machine.contenders_environment(keep=False)[1]:
        monkeypatch.delenv(name)
    for name, value in slowing.items():
        monkeypatch.setenv(name, value)
    environment, removed = machine.contenders_environment(keep=False)
    assert removed == sorted(slowing)
    assert not slowing.keys() & environment.keys()
    assert environment["PATH"]
    kept, removed = machine.contenders_environment(keep=True)
    assert slowing.items() <= kept.items()
    assert removed == []
