"""An extra is added in the way in which npformer was installed: from its folder, by pip, by uv or by uvx."""

import json
import sys
from importlib.metadata import PackageNotFoundError

import pytest

from npformer import extras
from npformer.backend.select import numba_problem
from npformer.cli.doctor import examine

FOLDER = "in npformer's folder: pip install -e '.[fast]'"
EDITABLE = {"url": "file:///home/me/npformer", "dir_info": {"editable": True}}
WAYS = {
    "an editable install": ({"direct_url.json": json.dumps(EDITABLE)}, "/venv", FOLDER),
    "no install": (None, "/venv", FOLDER),
    "a wheel": ({"INSTALLER": "pip\n"}, "/venv", "pip install 'npformer[fast]'"),
    "a copy of a folder": (
        {"direct_url.json": '{"dir_info": {}, "url": "file:///x"}'},
        "/",
        "pip install 'npformer[fast]'",
    ),
    "uv": ({"INSTALLER": "uv"}, "/home/me/.venv", "uv pip install 'npformer[fast]'"),
    "uvx": ({"INSTALLER": "uv\n"}, "/home/me/.cache/uv/archive-v0/x7", "uvx --from 'npformer[fast]' npformer …"),
    "uvx on Windows": ({"INSTALLER": "uv"}, "C:\\uv\\cache\\archive-v0\\x", "uvx --from 'npformer[fast]' npformer …"),
    "uv tool": ({"INSTALLER": "uv"}, "/home/me/.local/share/uv/tools/npformer", "uv tool install 'npformer[fast]'"),
}


@pytest.fixture
def installed(monkeypatch):
    """installed(files, prefix): npformer is installed so, in an environment of this folder; files None: not at all."""

    def inject(files, prefix):
        class Distribution:
            def __init__(self, name):
                assert name == "npformer"
                if files is None:
                    raise PackageNotFoundError(name)

            def read_text(self, name):
                return files.get(name)

        monkeypatch.setattr("importlib.metadata.distribution", Distribution)
        monkeypatch.setattr(sys, "prefix", prefix)

    return inject


@pytest.mark.parametrize(("files", "prefix", "command"), WAYS.values(), ids=WAYS)
def test_the_command_is_for_this_install(files, prefix, command, installed, monkeypatch):
    installed(files, prefix)
    assert extras.install("fast") == command
    monkeypatch.setattr("npformer.backend.select.find_spec", lambda name: None)
    assert numba_problem() == f"Numba is not installed; {command}"


def test_what_the_doctor_says_is_that_command(installed, monkeypatch):
    installed({"INSTALLER": "pip"}, "/venv")
    monkeypatch.setattr("npformer.cli.doctor._version", lambda name: "missing" if name in ("numba", "mkl") else "1.0")
    examined = examine()
    assert examined["Numba"].startswith("not installed: pip install 'npformer[fast]' brings compiled kernels")
    assert examined["MKL"].startswith("not installed: pip install 'npformer[mkl]' makes Numba kernels faster")
