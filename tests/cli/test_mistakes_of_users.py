"""Fifty mistakes of users, with what each is told; what they do next, with the words that they were told, works."""

import re
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import numpy as np
import pytest

import npformer as npf
from npformer.errors import NpformerError
from npformer.run.begin import new_run

#: The options of a run that was begun by mistake or is the next step.
TINY = """
[run]
device = "numpy"
[model]
d_model = 8
d_ff = 8
num_heads = 2
[training]
batch_size = 4
steps = 4
eval_examples = 3
final_examples = 6
"""
#: What was typed, a command or a line of Python; the words of the message that say what to do; and what is typed next,
#: in which {} stands for these words.
MISTAKES = (
    # PyTorch's, Keras's, Hugging Face's and nanoGPT's words for an option
    ("npformer train reverse --lr 0.01", "--set learning_rate=", "npformer train reverse {}0.01"),
    ("npformer train reverse --set lr=0.01", "training.learning_rate", "npformer train reverse --set {}=0.01"),
    ("npformer train reverse --epochs 3", "--set steps=", "npformer train reverse {}4"),
    ("npformer train reverse --set num_epochs=3", "training.steps", "npformer train reverse --set {}=4"),
    ("npformer train reverse --batch-size 8", "--set batch_size=", "npformer train reverse {}8"),
    ("npformer train reverse --set batch=8", "training.batch_size", "npformer train reverse --set {}=8"),
    ("npformer train reverse --set n_layer=1", "mean 'model.num_encoder_layers' or 'model.num_decoder_layers'?",
     "npformer train reverse"),
    ("npformer train reverse --set n_layer=1", "model.num_encoder_layers", "npformer train reverse --set {}=1"),
    ("npformer train reverse --layers 1", "--set num_encoder_layers=", "npformer train reverse {}1"),
    ("npformer train reverse --set num_layers=1", "model.num_decoder_layers", "npformer train reverse --set {}=1"),
    ("npformer train reverse --set heads=1", "model.num_heads", "npformer train reverse --set {}=1"),
    ("npformer train reverse --set n_embd=16", "model.d_model", "npformer train reverse --set {}=16"),
    ("npformer train reverse --set hidden_size=16", "model.d_model", "npformer train reverse --set {}=16"),
    ("npformer train reverse --set intermediate_size=9", "model.d_ff", "npformer train reverse --set {}=9"),
    ("npformer train reverse --set max_iters=3", "training.steps", "npformer train reverse --set {}=3"),
    ("npformer train lm --data text.txt --set block_size=9", "data.max_length",
     "npformer train lm --data text.txt --set {}=9"),
    ("npformer train reverse --set grad_clip=2", "training.clip_norm", "npformer train reverse --set {}=2"),
    ("npformer train reverse --set vocab_size=9", "leave it out", "npformer train reverse"),
    ("npformer train reverse --dropout 0.1", "--set dropout=", "npformer train reverse {}0.1"),
    ("npformer train reverse --output_dir other", "--out", "npformer train reverse {} other"),
    ("npformer train reverse --device cpu", "did you mean numpy?", "npformer train reverse --device numpy"),
    ("npformer train reverse --set dtype=fp32", "did you mean 'float32'?",
     "npformer train reverse --set dtype=float32"),
    ("npformer train reverse --set schedule=cosine", "warmup_cosine", "npformer train reverse --set schedule={}"),
    ("npformer train reverse --set optimizer=AdamW", "did you mean 'adamw'?",
     "npformer train reverse --set optimizer=adamw"),
    ("npformer train reverse --set positions=rope", "did you mean 'rotary'?",
     "npformer train reverse --set positions=rotary"),
    ("npformer decode run --num-beams 2 abc", "--beam", "npformer decode run {} 2 abc"),
    ("npformer decode run --max-new-tokens 4 abc", "--max-len", "npformer decode run {} 4 abc"),
    ("npformer decode run --temperature 0 abc", "", "npformer decode run --temperature 0 abc"),
    # commands, tasks and places
    ("npformer reverse", "train reverse", "npformer {}"),
    ("npformer generate run abc", "did you mean decode?", "npformer decode run abc"),
    ("npformer derive softmax", "npformer derive --template softmax", "{}"),
    ("npformer museum list", "npformer museum alone lists", "npformer museum"),
    ("npformer resume run", "train --resume", "npformer {} run"),
    ("npformer train --task reverse", "leave it out", "npformer train reverse"),
    ("npformer train lm text.txt", "--data text.txt", "npformer train lm {}"),
    ("npformer train text.txt", "lm --data text.txt", "npformer train {}"),
    ("npformer train reverse steps=3", "--set steps=3", "npformer train reverse {}"),
    ("npformer train reverse --resume run", "npformer train --resume run", "{}"),
    ("npformer train --resume run/checkpoints/step-00000030", "did you mean run?", "npformer train --resume run"),
    ("npformer train pairs", "npformer train pairs --data pairs.tsv", "{}"),
    ("npformer train copy --data pairs.tsv", "tasks on a file of your own: pairs",
     "npformer train pairs --data pairs.tsv"),
    ("npformer train reverse --out run", "--resume run", "npformer train {}"),
    ("npformer train reverse --config run", "run/config.toml", "npformer train --out other --config {}"),
    ("npformer decode . abc", "did you mean run?", "npformer decode run abc"),
    ("npformer decode run/config.toml abc", "npformer decode run", "{} abc"),
    ("npformer decode run/checkpoints/step-00000030/arrays.safetensors abc",
     "npformer decode run/checkpoints/step-00000030", "{} abc"),
    ("npformer decode run --file words.txt", "< FILE", "npformer decode run < words.txt"),
    # values, and what a run has already
    ("npformer train reverse --set clip_norm=0", '"none"', "npformer train reverse --set clip_norm=none"),
    ("npformer train reverse --set num_heads=3", "the nearest is 2", "npformer train reverse --set num_heads=2"),
    ("npformer train reverse --set warmup_steps=50", "--set warmup_steps=0 is usual", "npformer train reverse"),
    ("npformer train --resume run --set d_model=32", "leave it, or start a new run", "npformer train --resume run"),
    ("npformer train --resume run --set learning_rate=0.0001",
     "npformer train --resume run --set learning_rate=0.0001 --set steps=60", "{}"),
    ("edit('steps = 30', 'steps = 31')\nnpformer train --resume run",
     "npformer train --resume run --set training.steps=31", "{}"),
    ("edit('d_model = 16', 'd_model = 32')\nnpformer train --resume run",
     "mv run/config.toml run/config.toml-damaged; npformer train --resume run", "{}"),
    # Python
    ("npf.load('run/checkpoints/step-00000030/arrays.safetensors')", "npf.load('run/checkpoints/step-00000030')", "{}"),
    ("npf.load('theirs.safetensors')", "npf.interop.torch.load_from_file", "{}(model, 'theirs.safetensors')"),
    ("npf.interop.torch.load_state_dict(model, 'theirs.safetensors')", "npf.interop.torch.load_from_file",
     "{}(model, 'theirs.safetensors')"),
    ("npf.WarmupCosine(60, 2e-3, 300)", "WarmupCosine(peak=0.002, warmup_steps=60, total_steps=300)", "npf.{}"),
    ("npf.Adam(model)", "Adam(model.arena)", "npf.{}"),
    ("npf.trace(decoder, ids, ids)", "tokens", "npf.trace(decoder, ids)"),
    ("npf.get_backend('cpu')", "did you mean 'numpy'?", "npf.get_backend('numpy')"),
    ("new_run({'task': 'reverse'})", "{'run': {'task': 'reverse'}}", "new_run({}, 'other')"),
    ("new_run({'run': {'task': 'reverse'}, 'training': {'lr': 1}})", "learning_rate",
     "new_run({{'run': {{'task': 'reverse'}}, 'training': {{'{}': 1}}}}, 'other')"),
    ("npf.greedy(model, 'abc')", "npf.decode", "{}('run', 'abc')"),
    ("npf.decode('run', 5)", "texts: expected a text", "npf.decode('run', 'abc')"),
    ("npf.decode(npf.read_run('run'), 'abc')", "a run's folder", "npf.decode('run', 'abc')"),
    ("npf.decode('run', ['ABC'])", "vocabulary.txt", "npf.decode('run', ['abc'])"),
)  # fmt: skip


@pytest.fixture
def at_work(copied, cli, monkeypatch):
    """Do what is typed, a command or Python, in a folder with a run and files; returns what went wrong in words."""
    run = copied("run")
    small = {"d_model": 8, "num_heads": 2}
    model = npf.Transformer(npf.TransformerConfig(8, 8, **small))
    decoder = npf.Decoder(npf.DecoderConfig(8, **small))
    npf.interop.torch.save_state_dict(model, "theirs.safetensors")
    files = {
        "tiny.toml": TINY, "pairs.tsv": "".join(f"{n}\t{n}\n" for n in range(60)), "words.txt": "abc\nde\n",
        "text.txt": "so it goes on and on\n" * 600,
    }  # fmt: skip
    for name, text in files.items():
        Path(name).write_text(text)

    def edit(old, new):
        path = run / "config.toml"
        path.write_text(path.read_text().replace(old, new))

    ids = np.array([[1, 2]])
    names = {"npf": npf, "new_run": new_run, "model": model, "decoder": decoder, "ids": ids, "edit": edit}

    def do(typed):
        words = ""
        for line in re.split(r"\n|; (?=npformer)", typed):
            if line.startswith("mv "):
                _, old, new = line.split()
                Path(old).rename(new)
            elif line.startswith("npformer "):
                command, _, source = line.removeprefix("npformer ").partition(" < ")
                if source:
                    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(Path(source).read_bytes())))
                if command.startswith("train") and not {"--resume", "--config"} & set(command.split()):
                    command += " --config tiny.toml"
                done = cli(command)
                assert "Traceback" not in done.err
                words = done.err if done.code else ""
            else:
                try:
                    exec(line, dict(names))
                except NpformerError as error:
                    words = str(error)
        return words

    return do


@pytest.mark.parametrize(("typed", "told", "then"), MISTAKES, ids=[typed for typed, _, _ in MISTAKES])
def test_the_next_step_that_a_mistake_is_told_works(typed, told, then, at_work):
    assert told in " ".join(at_work(typed).split())
    assert at_work(then.format(told)) == ""
