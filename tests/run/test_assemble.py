"""From options to a run's parts, and from its folder back to its model."""

from dataclasses import replace

import numpy as np
import pytest

from npformer.data import SequenceTask
from npformer.errors import CheckpointError, OutputError
from npformer.optim import Adam, AdamW, Noam
from npformer.run import RunDirectory, trained
from npformer.run import assemble as module
from npformer.run.assemble import assemble, write_run
from npformer.run.checkpoint import save_checkpoint
from npformer.run.trained import read_trained
from tests.run.runs import failing, small_sections


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "own.tsv"
    path.write_text("".join(f"{n}\t{n}\n" for n in range(50)))
    return path


def test_every_option_reaches_its_part():
    parts = assemble(
        small_sections(
            run={"device": "numpy", "task": "sort", "seed": 5, "dtype": "float64"},
            data={"symbols": 3, "min_length": 2, "max_length": 6},
            training={
                "optimizer": "adamw", "learning_rate": 0.5, "schedule": "noam", "warmup_steps": 7, "beta1": 0.5,
                "beta2": 0.6, "eps": 1e-3, "weight_decay": 0.25, "clip_norm": 3.0, "label_smoothing": 0.1,
                "accumulate": 2,
            },
        )
    )  # fmt: skip
    step, task = parts.step, parts.task
    assert isinstance(task, SequenceTask)
    assert (task.name, task.max_length, len(task.vocabulary)) == ("sort", 7, 6)
    assert min(np.count_nonzero(task.batch(1, 200).src, axis=1)) == 3, "two letters and the end"
    assert isinstance(step.optimizer, AdamW)
    assert (step.optimizer.betas, step.optimizer.eps, step.optimizer.weight_decay) == ((0.5, 0.6), 1e-3, 0.25)
    assert isinstance(step.schedule, Noam)
    assert step.schedule(7) == pytest.approx(0.5 * 8**-0.5 * 7**-0.5)
    assert (step.seed, step.label_smoothing, step.clip_norm, step.accumulate) == (5, 0.1, 3.0, 2)
    assert (step.model.backend.dtype, step.model.config.src_vocab_size) == ("float64", 6)
    assert parts.identity == {"task": "sort", "digest": None}


def test_what_decodes_amid_training_is_compiled_before_it(monkeypatch):
    asked = []
    before = trained.get_backend

    def get_backend(*args, **options):
        backend = before(*args, **options)
        return replace(backend, engine=replace(backend.engine, prepare=lambda calls: asked.append(set(calls))))

    monkeypatch.setattr(trained, "get_backend", get_backend)
    assemble(small_sections(run={"device": "numpy", "kernels": "numpy"}))
    (once,) = asked
    assert once > {"attention.backward", "cross_entropy.forward", "adam", "decoding"}


def test_the_seed_decides_parameters_and_batches():
    one, same, other = (assemble(small_sections(run={"device": "numpy", "seed": seed})) for seed in (1, 1, 2))
    assert type(one.step.optimizer) is Adam, "by default"
    for first, second, third in zip(
        *(dict(p.step.model.named_parameters()).values() for p in (one, same, other)), strict=True
    ):
        assert (first.data == second.data).all()
        assert (first.data != third.data).any() or not first.data.any() or (first.data == 1).all()
    assert (one.task.batch(3, 8).src == same.task.batch(3, 8).src).all()
    assert one.task.held_out(5) != other.task.held_out(5)


def test_a_run_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "write_atomically", failing())
    with pytest.raises(OutputError, match=r"vocabulary.txt: expected to write it, got: the disk is full; make room"):
        write_run(RunDirectory(tmp_path), assemble(small_sections()))


def test_a_new_run_s_files_and_their_names_are_durable(tmp_path, is_durable):
    run = RunDirectory(tmp_path)
    write_run(run, assemble(small_sections(run={"device": "numpy", "task": "copy"})))
    save_checkpoint(run.checkpoints, 1, {}, {}, None)
    for path in (run.config_path, run.vocabulary_path, run.path, run.checkpoints):
        assert is_durable(path), path


def test_a_list_of_classes_that_lost_one_is_named(tmp_path):
    run = RunDirectory(tmp_path)
    parts = assemble({"run": {"task": "language", "device": "numpy"}, "data": {"count": 20}, "model": {"num_layers": 1},
                      "training": {"steps": 2}})  # fmt: skip
    write_run(run, parts)
    parts.trainer(run).save()
    assert read_trained(run).classes == parts.task.classes
    run.classes_path.write_text("".join(f"{name}\n" for name in parts.task.classes[:-1]))
    with pytest.raises(CheckpointError, match=r"^\S+/classes\.txt: does not fit step-00000000: "):
        read_trained(run)
