"""The lower bounds of setup.cfg: ``python -m tests.lowest`` runs the whole suite with them."""

import re
from importlib.metadata import requires, version

import pytest

from tests import lowest


def test_every_requirement_has_a_lowest_version():
    wanted = {re.match(r"[\w-]+", line)[0] for line in requires("npformer") or () if _is_for_tests(line)}
    assert set(lowest.constraints()) == wanted
    assert lowest.lowest_python() == (3, 11)


def test_lowest_versions_go_together_with_the_lowest_numpy():
    """NVRTC has no version 12.4."""
    assert _numbers(lowest.constraints()["nvidia-cuda-nvrtc-cu12"]) >= (12, 4, 99)


def test_no_lowest_version_is_above_what_is_installed():
    for name in ("numpy", "array-api-compat", "tqdm", "safetensors", "pytest"):
        assert _numbers(lowest.constraints()[name]) <= _numbers(version(name)), name


def test_a_requirement_without_a_lowest_version_is_named(monkeypatch):
    monkeypatch.setattr(lowest, "requirements", lambda: ["numpy>=2.0,<2.6", "tqdm"])
    with pytest.raises(ValueError, match=r"expected a requirement as name>=version, got 'tqdm'"):
        lowest.constraints()


def test_another_python_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(lowest, "lowest_python", lambda: (3, 7))
    assert lowest.main([]) == 2
    assert "expected Python 3.7, got 3." in capsys.readouterr().err


def _is_for_tests(requirement):
    """Whether it is installed by ``pip install -e '.[test]'``."""
    return "extra ==" not in requirement or re.search(r"extra == ['\"]test['\"]", requirement) is not None


def _numbers(text):
    return tuple(map(int, re.findall(r"\d+", text)))
