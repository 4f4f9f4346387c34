"""Training: the step, the loop, evaluation, and the files of a run."""

from npformer.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from npformer.training.evaluation import Evaluation, evaluate
from npformer.training.model_file import load, save
from npformer.training.options import DataOptions, Options, RunOptions, TrainingOptions
from npformer.training.run_directory import RunDirectory
from npformer.training.step import TrainStep
from npformer.training.trainer import Trainer

__all__ = [
    "Checkpoint",
    "DataOptions",
    "Evaluation",
    "Options",
    "RunDirectory",
    "RunOptions",
    "TrainStep",
    "Trainer",
    "TrainingOptions",
    "evaluate",
    "load",
    "load_checkpoint",
    "save",
    "save_checkpoint",
]
