"""npformer doctor: its report, also when something is missing."""

import importlib.metadata
import sys

import numpy as np
import pytest

from npformer import __version__
from npformer.backend import cupy_problem, get_backend, select
from npformer.cli import doctor
from npformer.extras import install
from tests.engine.cupy import emulated


@pytest.fixture
def finding(cli):
    """What the report says of one thing."""
    return lambda name: cli("doctor --json").document[name]


def test_text_and_json_agree(cli):
    text, machine = cli("doctor"), cli("doctor --json")
    assert (text.code, text.err, machine.code) == (0, "", 0)
    document = machine.document
    assert document["npformer"] == __version__
    assert document["numpy"] == np.__version__
    assert document["safetensors"] == importlib.metadata.version("safetensors")
    assert document["arithmetic"] == "ok"
    width = max(map(len, document)) + 2
    lines = text.lines
    assert [line[:width].strip() for line in lines if line[0] != " "] == list(document)
    assert " ".join(line[width:] for line in lines) == " ".join(document.values())
    assert max(len(line) for line in lines if " install " not in line) <= 80


def test_what_auto_picks_and_why(cli):
    problem, outcome = cupy_problem(), cli("doctor --json").document
    if problem is None:
        assert outcome["--device auto"] == "cupy, because a GPU answers"
    else:
        assert problem.endswith(outcome["CuPy"])
        assert outcome["--device auto"] == "numpy, because CuPy cannot be used"


def test_the_limit_of_threads(finding, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    assert "OPENBLAS_NUM_THREADS=3" in finding("BLAS threads")
    for name in doctor.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert "not limited" in finding("BLAS threads")


@pytest.mark.parametrize(
    ("core", "asked", "expected"),
    [
        ("SkylakeX", None, "SkylakeX"),
        ("Haswell", "Zen", "Haswell (OPENBLAS_CORETYPE=Zen)"),
        (None, "Zen", "unknown: NumPy's BLAS is not OpenBLAS"),
    ],
)
def test_the_core_type_of_the_blas(finding, monkeypatch, core, asked, expected):
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    if asked is not None:
        monkeypatch.setenv("OPENBLAS_CORETYPE", asked)
    monkeypatch.setattr(doctor, "blas_core", lambda: core)
    assert finding("BLAS core") == expected


def test_compiled_kernels_are_the_default_where_numba_is_installed(cli):
    pytest.importorskip("numba")
    document = cli("doctor --json").document
    assert document["Numba"] == importlib.metadata.version("numba")
    assert document["--kernels auto"] == "numba, because Numba is installed, and NumPy's BLAS has a product to call"


def test_a_blas_whose_product_is_not_known(finding, monkeypatch):
    monkeypatch.setattr(select, "numba_problem", lambda: None)
    monkeypatch.setattr("npformer.backend.numpy.blas.blas_product", lambda letter: None)
    assert finding("--kernels auto") == (
        "numpy, because NumPy's BLAS has no product that compiled kernels know, and their own is slow"
    )
    assert get_backend("numpy").kernels == "numpy"


def test_without_numba_the_extra_is_recommended(cli, monkeypatch):
    """Numba is optional: without it the exit code is 0, and the report says how to get more speed."""
    version = importlib.metadata.version

    def without_numba(name):
        if name == "numba":
            raise importlib.metadata.PackageNotFoundError
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", without_numba)
    monkeypatch.setattr(select, "find_spec", lambda name: None)
    done = cli("doctor --json").fine()
    assert done.document["Numba"] == (
        f"not installed: {install('fast')} brings compiled kernels; npformer bench compares"
    )
    assert done.document["--kernels auto"] == "numpy, because Numba cannot be used"


@pytest.mark.parametrize(
    ("version", "compiled", "problem", "expected"),
    [
        (
            "missing",
            None,
            "",
            f"not installed: {install('mkl')} makes Numba kernels faster on Intel's processors",
        ),
        ("9.9", "no Numba", "", "9.9, not used: there are no compiled kernels"),
        ("9.9", None, "it is old", "9.9, not used: it is old"),
        ("9.9", None, "", "9.9"),
    ],
)
def test_intels_library(version, compiled, problem, expected, finding, monkeypatch):
    if compiled is None:
        module = pytest.importorskip("npformer.engine.numba.intel")
        monkeypatch.setattr(module, "intel", lambda: module.Intel(None, version, problem))
    known = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: version if name == "mkl" else known(name))
    monkeypatch.setattr(doctor, "numba_problem", lambda: compiled)
    assert finding("MKL") == expected


def test_a_numba_that_cannot_be_imported(cli, monkeypatch):
    """For example after an update of NumPy that Numba does not support yet: training uses other kernels."""

    def fails(name):
        if name != "npformer.engine.numba":
            return importlib.import_module(name)
        raise ImportError("Numba needs NumPy 2.3 or less. Got NumPy 2.5.")

    monkeypatch.setattr(select, "find_spec", lambda name: name)
    monkeypatch.setattr(select, "higher", fails)
    monkeypatch.setattr(doctor, "_version", lambda name: "0.1")
    done = cli("doctor --json").fine()
    assert "cannot be used (ImportError: Numba needs NumPy 2.3 or less. Got NumPy 2.5.)" in done.document["Numba"]
    assert done.document["--kernels auto"].startswith("numpy")


def test_the_report_compiles_nothing(cli, monkeypatch):
    asked = []

    def noting(name, *, kernels="auto"):
        asked.append(kernels)
        return get_backend(name, kernels=kernels)

    monkeypatch.setattr(doctor, "get_backend", noting)
    assert cli("doctor").err == ""
    assert asked == ["plain"]


def test_a_missing_package(cli, monkeypatch):
    monkeypatch.setattr(doctor, "PACKAGES", ("numpy", "a-package-nobody-has"))
    done = cli("doctor --json")
    assert (done.code, done.document["a-package-nobody-has"]) == (1, "missing")


def test_wrong_arithmetic_is_reported(cli, monkeypatch):
    monkeypatch.setattr(doctor.np, "max", lambda x: 0.5)
    done = cli("doctor --json")
    assert done.code == 1
    assert "a float32 product is off by 5.0e-01" in done.document["arithmetic"]


#: What tries a GPU, by its number: the first answers, the second fails, the third hangs.
CARDS = """
import sys, time
number = int(sys.argv[1])
time.sleep(600 * (number > 1))
print(["ok", "a kernel fails: OSError: no kernel image is available"][number])
"""


@pytest.fixture
def cards(monkeypatch, a_gpu):
    """cards(count): so many GPUs are visible."""

    def show(count):
        monkeypatch.setattr(doctor, "cupy_problem", lambda: None)
        monkeypatch.setattr(a_gpu.cuda.runtime, "getDeviceCount", lambda: count)
        monkeypatch.setattr(doctor, "TRY", [sys.executable, "-c", CARDS])

    return show


@pytest.fixture
def a_gpu(monkeypatch):
    return emulated.installed(monkeypatch)


def test_every_gpu_is_tried_and_one_that_fails_is_told(cli, cards, monkeypatch):
    cards(1)
    cli("doctor").fine().says("14.2.0, driver CUDA 13.1, a machine without a GPU", "GPU 0")
    cards(2)
    done = cli("doctor --json")
    assert done.code == 1
    assert [done.document[f"GPU {number}"] for number in range(2)] == [
        "ok", "a kernel fails: OSError: no kernel image is available",
    ]  # fmt: skip
    monkeypatch.setattr(doctor, "PATIENCE", 0.1)
    assert doctor.tried_alone(2).startswith("expected an answer within 0.1 s, got none")
