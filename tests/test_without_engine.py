"""The mathematics, layers, models, training and decoding need no engine: in a copy without that folder they work."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The package and its tests, without the engine."""
    place = tmp_path_factory.mktemp("copy")
    for name in ("npformer", "tests", "benchmarks"):
        unwanted = shutil.ignore_patterns("engine", "__pycache__", "results")
        shutil.copytree(HERE.parent / name, place / name, ignore=unwanted)
    shutil.copy(HERE.parent / "setup.cfg", place)
    return place


def run(copy, *words):
    return subprocess.run(
        [sys.executable, *words], cwd=copy, env=os.environ | {"PYTHONPATH": str(copy)}, capture_output=True, text=True
    )


def test_it_is_learnt_and_decoded(copy):
    output = run(copy, "-c", LEARN)
    assert output.returncode == 0, output.stderr
    assert output.stdout.split() == ["None", "True", "True"]


LEARN = """
import numpy as np
import npformer as npf

backend = npf.get_backend("numpy")
config = npf.TransformerConfig(src_vocab_size=9, tgt_vocab_size=9, d_model=16, num_heads=2, num_encoder_layers=1,
                               num_decoder_layers=1, d_ff=32, max_seq_len=8, dropout=0.0)
model = npf.Transformer(config, backend=backend, seed=0)
step = npf.TrainStep(model, npf.Adam(model.arena, lr=1e-2))
src, text = np.array([[3, 4, 5]]), np.array([[1, 5, 4, 3]])
losses = [float(step(src, text, np.array([[5, 4, 3, 2]]))) for _ in range(40)]
print(backend.engine, losses[-1] < 0.1 < losses[0], npf.greedy(model, src, max_len=4).tolist() == [[5, 4, 3, 2]])
"""


def test_kernels_that_an_engine_has_are_refused_with_the_reason(copy):
    for options in ('kernels="numba"', "threads=2"):
        output = run(copy, "-c", f"import npformer; npformer.get_backend('numpy', {options})")
        assert output.returncode == 1
        assert "npformer/engine" in output.stderr.splitlines()[-1]
