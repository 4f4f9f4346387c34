"""One number explained, with its page: from how few files a reader learns where it comes from."""

from pathlib import Path

import pytest

from npformer.cli.main import main
from npformer.see.record import recording
from tests.check.test_light import gone_through

MINE = """
import numpy as np
import npformer as npf

def build():
    layer = npf.layers.EncoderLayer(4, 2, 6, backend=npf.get_backend("numpy", kernels="plain"))
    return layer, (np.random.default_rng(0).normal(size=(2, 3, 4)),)
"""


@pytest.mark.parametrize(
    ("target", "at", "most", "own"),
    [("mine.py", "norm1.gamma[2]", 70, 15), ("transformer", "encoder.layers.0.feed_forward.up.weight[1,2]", 80, 15)],
)
def test_one_number_with_its_page_runs_through_few_files(tmp_path, monkeypatch, target, at, most, own):
    """Of the transformer's, 46 are its own layers and operations, and what they stand on."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    recorded = []
    noting = recording._CopyKeeper
    monkeypatch.setattr(recording, "_CopyKeeper", lambda *given: recorded.append(given) or noting(*given))
    codes = []
    files = gone_through(lambda: codes.append(main(["explain", target, "--at", at, "--html", "page.html"])))
    assert codes == [0]
    assert len(files) <= most, sorted(files)
    assert len([name for name in files if name.startswith("see/")]) <= own, sorted(files)
    assert len(recorded) == 1, "the page shows the recording that is explained"
