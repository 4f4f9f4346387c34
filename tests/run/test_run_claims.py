"""What the folder of a run claims is compared with its checkpoint before a model is built, or data are made."""

import numpy as np
import pytest

from npformer.errors import CheckpointError, ConfigError
from npformer.io.atomic_files import seal, unseal
from npformer.run import RunDirectory
from npformer.run import assemble as module
from npformer.run.assemble import assemble
from npformer.run.checkpoint import (
    STATE,
    best_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from npformer.run.config_file import read_toml
from npformer.run.options import SECTIONS
from npformer.run.trained import load_latest, read_trained
from tests.faults.subjects import make_trained
from tests.outputs import unchanged


@pytest.fixture
def run(tmp_path):
    """A run of two steps."""
    make_trained(tmp_path / "run")
    return RunDirectory(tmp_path / "run")


def change(run, old, new):
    text = run.config_path.read_text()
    assert old in text
    run.config_path.write_text(text.replace(old, new))


def resumed(run):
    checkpoint = load_latest(run)
    parts = assemble(read_toml(run.config_path, SECTIONS), checkpoint)
    parts.trainer(run).restore(checkpoint)
    return parts


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("d_model = 8", "d_model = 8192"),
        ('positions = "sinusoidal"', 'positions = "learned"'),
        ('dtype = "float32"', 'dtype = "float64"'),
    ],
)
def test_a_model_that_the_checkpoint_does_not_hold_is_not_built(old, new, run, monkeypatch):
    change(run, old, new)
    monkeypatch.setattr(module, "build_model", lambda *_, **__: pytest.fail("a model was built"))
    for read in (read_trained, resumed):
        with pytest.raises(CheckpointError, match="step-00000002: does not fit the model: "):
            read(run)


def test_data_of_another_task_are_not_made(run, monkeypatch):
    change(run, 'task = "copy"', 'task = "dates"')
    monkeypatch.setattr(module, "make_task", lambda *_: pytest.fail("data were made"))
    with pytest.raises(CheckpointError, match=r"^dates: expected the data that the run was trained on, .*'copy'"):
        resumed(run)


@pytest.mark.parametrize("read", [read_trained, resumed])
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("num_decoder_layers = 1", "num_decoder_layers = 1000000000", "num_decoder_layers: expected at most 10,000"),
        ("seed = 0", "seed = " + "[" * 5000, "expected TOML"),
    ],
)
def test_options_out_of_bounds_are_refused(read, old, new, message, run):
    change(run, old, new)
    with pytest.raises(ConfigError, match=message):
        read(run)


@pytest.mark.parametrize(
    "changes",
    [
        {"step": "2"}, {"step": None}, {"step": 2.0}, {"score": "1"}, {"score": [1]}, {"score": True}, {"state": []},
        {"arrays": None}, {"arrays": {"bytes": 1}}, {"arrays": {"bytes": "1", "sha256": ""}},
    ],
)  # fmt: skip
def test_a_sealed_state_of_other_things_is_refused(changes, run):
    """Anybody can make the check sum of what he wrote."""
    path = run.checkpoints / "step-00000002"
    document = unseal((path / STATE).read_bytes())
    for changed in (document | changes, {name: value for name, value in document.items() if name not in changes}):
        (path / STATE).write_bytes(seal(changed))
        with pytest.raises(CheckpointError, match=r"state.json: expected step, score, state and arrays"):
            load_checkpoint(path)
        assert best_checkpoint(run.checkpoints) != path
    (path / STATE).write_bytes(seal({}))
    with pytest.raises(CheckpointError, match="expected checkpoint format 1, found None"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    "state", [{}, {"loss_count": 1}, {"loss_count": "1", "versions": {}}, {"loss_count": 1, "versions": None}]
)
def test_a_checkpoint_of_another_program_is_not_resumed(state, run):
    checkpoint = load_latest(run)
    parts = assemble(read_toml(run.config_path, SECTIONS), checkpoint)
    save_checkpoint(run.checkpoints, 3, checkpoint.arrays, state | {"identity": parts.identity}, None)
    other = r"step-00000003: expected loss_count, versions and patience, as a run saves them"
    with unchanged(parts.step.model.arena), pytest.raises(CheckpointError, match=other):
        parts.trainer(run).restore(load_latest(run))


def test_diverged_weights_are_told(run):
    checkpoint = load_latest(run)
    checkpoint.arrays["parameters.generator.bias"][1] = np.nan
    save_checkpoint(run.checkpoints, 3, checkpoint.arrays, checkpoint.state, None)
    for read in (read_trained, resumed):
        with pytest.raises(CheckpointError, match=r"003: expected finite weights, got nan in generator.bias: .* away"):
            read(run)
