"""npformer doctor: what it says, and that it says so when something is missing."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from npformer import __version__
from npformer.backend import cupy_problem
from npformer.cli import doctor


def test_text_and_json_say_the_same(cli: Callable[..., Any]) -> None:
    text, machine = cli("doctor"), cli("doctor", "--json")
    assert (text.code, text.err, machine.code) == (0, "", 0)
    found = machine.document
    assert found["npformer"] == __version__
    assert found["numpy"] == np.__version__
    assert found["safetensors"] == importlib.metadata.version("safetensors")
    assert found["arithmetic"] == "ok"
    assert text.out.splitlines() == [f"{name:<{max(map(len, found))}}  {value}" for name, value in found.items()]


def test_what_auto_picks_and_why(cli: Callable[..., Any]) -> None:
    problem, found = cupy_problem(), cli("doctor", "--json").document
    if problem is None:
        assert found["--device auto"] == "cupy, because a GPU answers"
    else:
        assert found["CuPy"] == problem
        assert found["--device auto"] == f"numpy, because no GPU can be used: {problem}"


def test_the_limit_of_threads(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    assert "OPENBLAS_NUM_THREADS=3" in cli("doctor", "--json").document["BLAS threads"]
    for name in doctor.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert "not limited" in cli("doctor", "--json").document["BLAS threads"]


def test_a_missing_package(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", ("numpy", "a-package-nobody-has"))
    done = cli("doctor", "--json")
    assert (done.code, done.document["a-package-nobody-has"]) == (1, "missing")


def test_arithmetic_that_is_off(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.np, "max", lambda x: 0.5)
    done = cli("doctor", "--json")
    assert done.code == 1
    assert "a float32 product is off by 5.0e-01" in done.document["arithmetic"]
