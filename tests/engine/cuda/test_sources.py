"""The kernels' source text is installed with the package."""

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from npformer.engine.cuda.source import HERE, files

ROOT = Path(__file__).resolve().parents[3]


def test_a_wheel_brings_the_kernels(tmp_path):
    if importlib.util.find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed: no wheel can be built here")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "npformer", tmp_path / "npformer", ignore=shutil.ignore_patterns("__pycache__"))
    build = "from setuptools import build_meta; build_meta.build_wheel('.')"
    subprocess.run([sys.executable, "-W", "ignore", "-c", build], cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = {f"npformer/engine/cuda/{path.name}" for path in HERE.iterdir() if path.suffix in (".cu", ".cuh")}
    assert len(wanted) >= len(files())
    assert wanted <= inside, f"not in the wheel: {sorted(wanted - inside)}"
