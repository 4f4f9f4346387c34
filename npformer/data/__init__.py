"""Tasks to train on: their vocabularies, their examples, and the batches cut from them."""

from __future__ import annotations

from npformer.data.batches import Batch, Example, collate
from npformer.data.pairs import PairsTask
from npformer.data.sequences import SequenceTask
from npformer.data.tasks import Task
from npformer.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, Vocabulary

__all__ = [
    "BOS_ID",
    "EOS_ID",
    "PAD_ID",
    "Batch",
    "Example",
    "PairsTask",
    "SequenceTask",
    "Task",
    "Vocabulary",
    "collate",
]
