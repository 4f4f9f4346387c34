"""Options that the benchmarks refuse: error messages and exit codes."""

import pytest

from benchmarks import batches, decode, gradcheck_time, machine, ops, options, run_here, trace_page, train_step
from benchmarks.faults import files, kernel_cache, memory
from benchmarks.gpu import __main__ as gpu
from npformer.backend import cupy_problem

BESIDE_TORCH = pytest.mark.parametrize("module", [train_step, decode, ops])


@pytest.fixture
def without(monkeypatch):
    """without("torch") makes the package appear not installed."""

    def hide(package):
        there = options.installed
        monkeypatch.setattr(options, "installed", lambda name: name != package and there(name))

    return hide


@BESIDE_TORCH
def test_without_torch_one_error_says_what_to_install(module, without, refused):
    without("torch")
    assert refused(module.main, "--kernels plain") == (
        "benchmarks: --against torch: expected PyTorch, it is not installed; in npformer's folder: "
        "pip install -e '.[bench]' (a CPU build will do), or use --against none\n"
    )


@BESIDE_TORCH
def test_compiled_kernels_need_numba_and_auto_works_without_it(module, without, refused):
    without("numba")
    error = refused(module.main, "--kernels numba")
    assert "expected Numba, it is not installed" in error
    assert "pip install -e '.[fast]'" in error
    parser = options.new_parser("x", "", "", "tiny", "auto,numpy,plain", 1)
    assert options.checked(parser.parse_args(["--against", "none"])).kernels == ["numpy", "plain"]


@BESIDE_TORCH
@pytest.mark.skipif(cupy_problem() is None, reason="a GPU answers")
def test_cupy_without_a_gpu(module, refused):
    error = refused(module.main, "--device cupy --against none")
    assert "--device cupy: " in error
    assert "or use --device numpy" in error


@pytest.mark.parametrize(
    ("module", "line", "words"),
    [
        (train_step, "--size huge", "expected names from tiny, small, mid, base, separated by commas, got 'huge'"),
        (train_step, "--dropout 0.1,1", "expected 0 <= number < 1, got 1"),
        (train_step, "--dropout much", "expected numbers separated by commas, got 'much'"),
        (train_step, "--seconds 0", "expected a number > 0, got 0"),
        (train_step, "--rounds 0", "expected an integer >= 1, got 0"),
        (train_step, "--kernels fast", "expected names from numba, numpy, plain, auto"),
        (decode, "--tokens 0", "expected an integer >= 1, got 0"),
        (decode, "--batch 0", "expected 1 <= number < 4097, got 0"),
        (decode, "--save decode.txt", "expected a .json file in an existing folder, got"),
        (ops, "--op convolution", "expected names from linear, relu"),
        (ops, "--threads 0", "expected an integer >= 1, got 0"),
        (ops, "--save nowhere/x.json", "expected a .json file in an existing folder, got"),
        (gradcheck_time, "--rounds 0", "expected an integer >= 1, got 0"),
        (gradcheck_time, "--only all", "expected some of first, ordinary, million, region, got all"),
        (gradcheck_time, "--save nowhere/x.json", "expected a .json file in an existing folder"),
        (batches, "--steps 0", "expected an integer >= 1, got 0"),
        (trace_page, "--rounds 0", "expected an integer >= 1, got 0"),
        (run_here, "--rounds 0", "expected an integer >= 1, got 0"),
        (gpu, "--minutes 0", "expected a number > 0, got 0"),
        (gpu, "--minutes nan", "expected a number > 0, got nan"),
        (gpu, "--only tests,trian", "expected beginnings of tests, ceilings, train tf32 tiny"),
        (files, "--count 0", "expected an integer >= 1, got 0"),
        (kernel_cache, "--count 0", "expected an integer >= 1, got 0"),
        (memory, "--shapes 0", "expected an integer >= 1, got 0"),
    ],
)
def test_bad_options_are_refused(module, line, words, refused):
    peer = "--against none " if module in (train_step, decode, ops) else ""
    assert f"{line.split()[0]}: {words}" in refused(module.main, peer + line)


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
