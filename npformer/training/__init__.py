"""Training: the step, however it is made, and evaluation. The loop around it is a run's (``npformer.run``)."""

from npformer.training.evaluation import Evaluation, evaluate_task
from npformer.training.step import TrainStep

__all__ = ["Evaluation", "TrainStep", "evaluate_task"]
