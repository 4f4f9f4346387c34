"""Tasks to train on: their vocabularies, their examples, and the batches cut from them.

Those on real data are in ``npformer.data.real``.
"""

from __future__ import annotations

from npformer.data.batches import Batch, Example, TokenBatch, collate
from npformer.data.coverage import Coverage
from npformer.data.example_task import ExampleTask
from npformer.data.marked_words import MarkedWords
from npformer.data.own_text import text_from_file
from npformer.data.pairs import PairsTask
from npformer.data.sequences import SequenceTask
from npformer.data.spelled_words import SpelledWords
from npformer.data.tasks import Kind, Task
from npformer.data.text_task import TextTask
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
    "ExampleTask",
    "Kind",
    "MarkedWords",
    "PairsTask",
    "SequenceTask",
    "SpelledWords",
    "Task",
    "TextTask",
    "TokenBatch",
    "Tokenizer",
    "Vocabulary",
    "WordPiece",
    "Words",
    "collate",
    "text_from_file",
]
