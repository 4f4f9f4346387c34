"""Tasks to train on: their vocabularies, their examples, and the batches cut from them."""

from __future__ import annotations

from npformer.data.batches import Batch, Example, collate
from npformer.data.coverage import Coverage
from npformer.data.pairs import PairsTask
from npformer.data.sequences import SequenceTask
from npformer.data.tasks import Task
from npformer.data.tokenizer import Characters, Tokenizer, Words
from npformer.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, SEQUENCE, SPECIAL, Vocabulary
from npformer.data.wordpiece import WordPiece

__all__ = [
    "BOS_ID",
    "EOS_ID",
    "PAD_ID",
    "SEQUENCE",
    "SPECIAL",
    "Batch",
    "Characters",
    "Coverage",
    "Example",
    "PairsTask",
    "SequenceTask",
    "Task",
    "Tokenizer",
    "Vocabulary",
    "WordPiece",
    "Words",
    "collate",
]
