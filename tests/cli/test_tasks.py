"""Every task on real data from the command line: short training, the task's own measures, and decoding."""

import re
import shutil

import pytest

from npformer.backend import get_backend
from npformer.cli.main import main
from npformer.data import Characters, MarkedWords, Vocabulary, WordPiece, Words
from npformer.data.vocabulary import SEQUENCE
from npformer.decoding import beam_search
from npformer.models import Decoder, DecoderConfig, Encoder, Transformer
from npformer.run import RunDirectory, answers, metrics
from npformer.run.assemble import assemble
from npformer.run.tasks import ANSWERS, TASKS
from npformer.run.trained import Trained, read_trained
from tests.cli.conftest import TINY, assignments, options_of
from tests.run.runs import timeless

SMALL = TINY | {"save_every": 2, "eval_every": 2, "log_every": 2, "dropout": 0.1}
FEW = {"dates": 1000, "numbers": 100, "language": 20, "tags": 1000}
TOKENS = {"token_accuracy", "exact_match"}
MODELS = {
    "dates": (Transformer, Characters, TOKENS),
    "numbers": (Transformer, MarkedWords, TOKENS),
    "scan": (Transformer, Words, TOKENS),
    "language": (Encoder, Characters, {"accuracy"}),
    "tags": (Encoder, MarkedWords, TOKENS),
    "mlm": (Encoder, WordPiece, {"token_accuracy"}),
    "lm": (Decoder, Characters, {"token_accuracy", "bits_per_character"}),
}
EVERY_TASK = pytest.mark.parametrize("task", MODELS)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder of a small run of a task, trained on first use; not to be changed."""
    root = tmp_path_factory.mktemp("tasks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NPFORMER_CACHE", str(root / "cache"))

        def run_of(task):
            if not (root / task).exists():
                depth = (
                    ("num_encoder_layers", "num_decoder_layers") if MODELS[task][0] is Transformer else ("num_layers",)
                )
                options = SMALL | dict.fromkeys(depth, 1) | ({"count": FEW[task]} if task in FEW else {})
                assert main(["train", task, "--out", str(root / task), *assignments(options)]) == 0
            return root / task

        yield run_of


@EVERY_TASK
def test_a_run_has_everything_for_decoding(task, runs):
    kind, tokenizer, measures = MODELS[task]
    run = RunDirectory(runs(task))
    trained = read_trained(run, "numpy")
    assert (type(trained.model), type(trained.tokenizer), trained.kind) == (kind, tokenizer, TASKS[task].kind)
    parts = assemble(options_of(run.path))
    assert type(parts.task.tokenizer) is tokenizer
    assert (parts.task.kind, parts.task.classes) == (trained.kind, trained.classes)
    assert parts.task.vocabulary == trained.tokenizer.vocabulary
    assert type(parts.options.model) is ANSWERS[trained.kind].config
    evaluated = [record for record in metrics.read(run.metrics_path) if record["kind"] == "eval"]
    assert [record["step"] for record in evaluated] == [2, 4]
    assert all(set(timeless(record)) == measures | {"step", "kind", "loss", "examples"} for record in evaluated)
    assert all((run.path / name).stat().st_size > 5_000 for name in ("curves.svg", "attention.svg"))
    assert "npformer train --config " in (run.path / "report.html").read_text()


QUESTIONS = {
    "dates": (["1987-03-05", "1.2.1990"], "--beam 2"),
    "numbers": (["seven", "fifty-two"], "--top-k 3 --seed 5"),
    "scan": (["jump twice", "walk and run"], ""),
    "language": (["5 mars 1987"], ""),
    "tags": (["5 mars 1987", "1987"], ""),
    "mlm": (["the [MASK] is [MASK]", "[MASK]"], ""),
    "lm": (["The for statement", "x"], "--temperature 0.5 --top-p 0.9 --max-len 7"),
}


@EVERY_TASK
def test_a_run_can_decode(task, runs, cli):
    texts, options = QUESTIONS[task]
    run = runs(task)
    outcome = cli(f"decode {run} --json {options}", *texts).quiet()
    assert [entry["input"] for entry in outcome.document] == texts
    plain = cli(f"decode {run} {options}", *texts)
    assert plain.out == "".join(f"{entry['output']}\n" for entry in outcome.document)
    alone = "".join(cli(f"decode {run} {options}", text).out for text in texts)
    assert alone == plain.out, "a text's output does not depend on the batch"


@EVERY_TASK
def test_a_run_resumes(task, runs, cli, tmp_path, same_run):
    parts = shutil.copytree(runs(task), tmp_path / "parts")
    shutil.rmtree(parts / "checkpoints" / "step-00000004")
    cli("train --resume parts").fine()
    same_run(runs(task), parts)


def test_answers_have_the_form_of_their_kind(runs, cli):
    (document,) = cli("decode", runs("language"), "5 mars 1987", "--json").document
    assert document["output"] in (runs("language") / "classes.txt").read_text().split()[1:]
    assert 0 < document["probability"] < 1
    (document,) = cli("decode", runs("tags"), "5. mars 1987", "--json").document
    assert document["tokens"] == ["5", ".", "mars", "1987"]
    assert len(document["output"].split()) == 4
    (document,) = cli("decode", runs("mlm"), "the [MASK] is", "--json").document
    assert re.fullmatch(r"the ?.* is", document["output"])
    assert "[MASK]" not in document["output"]
    (document,) = cli("decode", runs("lm"), "The for", "--max-len", 5, "--json").document
    assert document["output"].startswith("The for")
    assert len(document["output"]) <= len("The for") + 5


def endless(positions, window=8):
    """A model that continues texts of the letters a to f, has a window of so many tokens, and never ends."""
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 8, "num_layers": 1, "max_seq_len": window}
    config = DecoderConfig(9, **sizes, positions=positions)
    tokenizer = Characters(Vocabulary([*SEQUENCE, *"abcdef"]))
    model = Decoder(config, backend=get_backend("numpy", kernels="plain"), seed=1)
    model.generator.bias.data[: len(SEQUENCE)] = -1e4
    return Trained(model, tokenizer, (), "causal")


def test_a_text_may_grow_beyond_the_window(monkeypatch):
    """Beyond the window the model reads the last half again, so no position exceeds those of training."""
    trained = endless("learned")
    read = []
    rows = answers._rows
    monkeypatch.setattr(
        answers, "_rows", lambda model, src, *rest: read.extend(src.tolist()) or rows(model, src, *rest)
    )
    answer = answers.answer(trained, ["abcabcabcabc", "a"], 10, answers.Sampling())
    texts = [each["output"] for each in answer]
    assert [len(text) for text in texts] == [22, 11]
    assert texts[0].startswith("abcabcabcabc")
    assert texts[1].startswith("a")
    assert max(map(len, read)) <= 8
    assert len({tuple(row) for row in read}) == len(read) >= 4
    assert answers.answer(trained, ["a"], 10, answers.Sampling())[0]["output"] == texts[1]


def test_a_search_continues_beyond_the_window(monkeypatch):
    trained = endless("rotary")
    made = []

    def search(model, prompts, max_len, **options):
        texts = beam_search(model, prompts, max_len, **options)
        made.append((len(prompts[0]), max_len, texts[0][0].log_probability))
        return texts

    monkeypatch.setattr(answers, "beam_search", search)
    for text, searches in (("abcabcabcabc", 3), ("a", 2), ("abcdef", 4)):
        made.clear()
        (answer,) = answers.answer(trained, [text], 10, answers.Sampling(beam=3))
        assert answer["output"].startswith(text)
        assert len(answer["output"]) == len(text) + 10
        assert [each[:2] for each in made[1:-1]] == [(4, 8)] * (searches - 2)  # the last half of the window
        assert len(made) == searches
        assert max(room for _, room, _ in made) <= 8
        assert answer["score"] == pytest.approx(sum(each[2] for each in made) / ((5 + 10) / 6) ** 0.6, abs=1e-6)
    both = answers.answer(trained, ["ab", "abcd"], 3, answers.Sampling(beam=3))
    assert [len(each["output"]) for each in both] == [5, 7]  # each as long as alone


def test_a_window_of_two_leaves_room_for_a_new_token():
    (answer,) = answers.answer(endless("sinusoidal", 2), ["abc"], 5, answers.Sampling())
    assert len(answer["output"]) == 8
    assert answer["output"].startswith("abc")


@pytest.mark.parametrize(
    ("task", "text", "unknown"),
    [
        ("tags", "5 qqq 1987 xyz", "'qqq', 'xyz'"),
        ("mlm", "the [MASK] is Ж\u2028 x", "'Ж' (U+0416)"),
        ("language", "5 ЖЯ\u2028", "'Ж' (U+0416), 'Я' (U+042F), '\\u2028' (U+2028)"),
    ],
)
def test_unknown_text_is_refused_alike_in_all_tasks(runs, cli, task, text, unknown):
    for command in (["decode", runs(task), text], ["trace", runs(task), "--text", text]):
        cli(*command).refused(
            "text 1: expected a text of the ", " pieces that the model has learned (the run's vocabulary.txt)",
            f", got {unknown} in ", "leave that out, or train on data that have it",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("task", "words", "message"),
    [
        ("mlm", "'nothing hidden'", "text 1: expected a [MASK] in place of each hidden token, got none in 'nothing"),
        ("language", "a --beam 2", "expected no generation option, since this model writes no text"),
        ("scan", "jump --beam 2 --top-k 3", "--beam: expected no temperature, top-k or top-p beside it"),
        ("scan", "'   '", "text 1: expected at least one token, got '   '; leave it out"),
        ("lm", "a --temperature -1", "npformer: --temperature: expected a number > 0, got -1.0"),
    ],
)
def test_senseless_requests_are_refused(task, words, message, runs, cli):
    run = runs(task)
    cli(f"decode {run} {words}").refused(message)


def test_a_language_model_ends_with_a_sample(runs, cli, tmp_path):
    runs("lm")  # its cache
    done = cli("train lm --out a --json", *assignments(SMALL)).fine()
    first = assemble(options_of(tmp_path / "a")).task.held_out(1)[0].source
    opening = " ".join(first.split()[:3])
    assert " ".join(done.document["sample"].split()).startswith(opening)
    assert 1 < done.document["bits_per_character"] < 20
