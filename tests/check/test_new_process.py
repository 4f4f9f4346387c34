"""A stranger's first check, in a new process with an empty home: what it imports, and what it leaves behind."""

import json
import os
import subprocess
import sys

CODE = """
import json, sys
touched = []

def hook(event, arguments):
    if event in ("os.mkdir", "subprocess.Popen") or (event == "open" and arguments[2] & {writing}):
        touched.append((event, str(arguments[0])))

sys.addaudithook(hook)
import numpy as np
import npformer as npf

def forward(x):
    return np.sin(x), x

def backward(dy, x):
    return dy * np.cos(x)

report = npf.gradcheck((forward, backward), np.random.default_rng(0).normal(size=(3, 4)))
wrong = npf.gradcheck((forward, lambda dy, x: -dy * np.cos(x)), np.random.default_rng(0).normal(size=(3, 4)))
print(json.dumps({{"ok": report.ok, "wrong": wrong.ok, "modules": sorted(sys.modules), "touched": touched}}))
"""


def test_a_first_check_compiles_nothing_and_asks_for_no_folder(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "XDG", "PYTEST"))}
    environment = kept | {"HOME": str(home), "USERPROFILE": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    code = CODE.format(writing=os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    document = json.loads(run.stdout)
    assert (document["ok"], document["wrong"]) == (True, False)
    packages = {name.partition(".")[0] for name in document["modules"]}
    assert packages.isdisjoint({"numba", "llvmlite", "matplotlib", "torch", "jax", "cupy", "hypothesis", "pytest"})
    assert not [name for name in document["modules"] if name.startswith("npformer.engine.numba")]
    assert document["touched"] == []
    assert list(home.iterdir()) == []
    assert run.stderr == ""
