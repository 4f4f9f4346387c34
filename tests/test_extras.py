"""An extra is added in the way in which npformer was installed: from its folder, by pip, by uv or by uvx."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import npformer
from npformer import extras
from npformer.backend.select import numba_problem
from npformer.cli.doctor import examine

FOLDER = Path(npformer.__file__).parents[1]
EDITABLE = {"url": "file:///home/me/npformer", "dir_info": {"editable": True}}
IN_FOLDER = f"/env/python -m pip install -e '{FOLDER}[fast]'"
WAYS = {
    "an editable install": ([{"direct_url.json": json.dumps(EDITABLE)}], IN_FOLDER),
    "one whose folder has metadata, too": ([{}, {"direct_url.json": json.dumps(EDITABLE)}], IN_FOLDER),
    "no install": ([], IN_FOLDER),
    "a wheel": ([{"INSTALLER": "pip\n"}], "/env/python -m pip install 'numba>=0.65'"),
    "uv": ([{"INSTALLER": "uv"}], "uv pip install --python /env/python 'numba>=0.65'"),
}
NEEDED = ["numpy>=2", 'numba>=0.65; extra == "fast"', 'numba>=0.65; (os_name == "x") and extra == "fast"']


@pytest.fixture
def installed(monkeypatch):
    """installed(every): what Python finds has these files, one table for each."""

    def inject(every):
        found = [SimpleNamespace(requires=NEEDED, read_text=files.get) for files in every]
        monkeypatch.setattr("importlib.metadata.distributions", lambda name: found)
        monkeypatch.setattr(sys, "executable", "/env/python")

    return inject


@pytest.mark.parametrize(("every", "command"), WAYS.values(), ids=WAYS)
def test_the_command_is_for_this_install(every, command, installed, monkeypatch):
    installed(every)
    assert extras.install("fast") == command
    monkeypatch.setattr("npformer.backend.select.find_spec", lambda name: None)
    assert numba_problem() == f"Numba is not installed; {command}"


def test_what_the_doctor_says_is_that_command(installed, monkeypatch):
    installed([{"INSTALLER": "pip"}])
    monkeypatch.setattr("npformer.cli.doctor._version", lambda name: "missing" if name == "numba" else "1.0")
    assert examine()["Numba"].startswith(f"not installed: {extras.install('fast')} brings compiled kernels")
