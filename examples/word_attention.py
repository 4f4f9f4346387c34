"""Where the decoder looks while it reverses a word: a picture of its cross-attention.

    npformer train reverse
    python examples/word_attention.py runs/reverse-001 backward reverse.svg

Rows are the output's steps; each is labelled with the letter written last. Columns are the letters of the input. The
dark cells of a row are the letters that the decoder attends to. Two heads of each layer are shown.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import npformer as npf
from npformer.data import EOS_ID, Example, Tokenizer
from npformer.models import Transformer
from npformer.run import RunDirectory
from npformer.run.predictions import attention_example
from npformer.run.trained import read_trained
from npformer.see.plot import draw_attention


def draw(run: Path, word: str, picture: Path) -> str:
    """Write the picture; returns the model's output for the word."""
    trained = read_trained(RunDirectory.open(run), "numpy")
    model, tokenizer = trained.model, trained.tokenizer
    if not isinstance(model, Transformer) or not isinstance(tokenizer, Tokenizer):
        raise SystemExit(f"{run}: expected a run of npformer train reverse")
    ids = npf.greedy(model, np.array([[*tokenizer.encode(word), EOS_ID]]), max_len=len(word) + 1)
    output = tokenizer.decode(ids[0])
    example = attention_example(model, tokenizer, [Example(word, output)], [output])
    weights = {name: heads[:2] for name, heads in example.weights.items() if name.endswith("cross_attention")}
    draw_attention(weights, example.source, example.target, picture, example.title)
    return output


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit("usage: python examples/word_attention.py RUN WORD PICTURE.svg")
    try:
        print(draw(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
    except npf.errors.NpformerError as error:
        raise SystemExit(f"word_attention: {error}") from None
