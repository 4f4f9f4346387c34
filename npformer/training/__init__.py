"""Training: the step, the loop and evaluation."""

from npformer.training.evaluation import Evaluation, evaluate
from npformer.training.step import TrainStep
from npformer.training.trainer import Trainer

__all__ = ["Evaluation", "TrainStep", "Trainer", "evaluate"]
