"""npformer decode: texts from the command and from standard input, and refused input."""

import io
import random
import shutil
import sys
from types import SimpleNamespace

import pytest

import npformer as npf
from npformer.cli import decode
from npformer.run import RunDirectory
from npformer.run.checkpoint import list_checkpoints, load_checkpoint, save_checkpoint
from npformer.run.trained import read_trained


@pytest.fixture
def typed(monkeypatch):
    """Put bytes on standard input."""

    def put(data, terminal=False):
        stream = SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: terminal)
        monkeypatch.setattr(sys, "stdin", stream)

    return put


@pytest.fixture
def echo(monkeypatch):
    """Replace the model by one that returns each text in capitals; returns the sizes of its batches."""
    sizes = []

    def shout(trained, texts, max_len, way):
        sizes.append(len(texts))
        return [{"output": text.upper()} for text in texts]

    monkeypatch.setattr(decode, "answer", shout)
    return sizes


def words(count):
    rng = random.Random(0)
    return ["".join(rng.choices("abcdefghij", k=rng.randint(1, 12))) for _ in range(count)]


def test_arguments_and_standard_input_give_the_same_output(cli, trained, typed):
    texts = words(7)
    by_argument = cli(f"decode {trained}", *texts).quiet()
    assert by_argument.out.count("\n") == 7
    for end in ("\n", "\r\n"):
        typed(end.join(texts).encode())
        assert cli(f"decode {trained}").out == by_argument.out
        typed(end.join(texts).encode())
        assert cli(f"decode {trained} -").out == by_argument.out
    document = cli(f"decode {trained} --json", *texts).document
    assert [entry["input"] for entry in document] == texts
    assert [entry["output"] for entry in document] == by_argument.out.split("\n")[:-1]


@pytest.mark.parametrize(
    "order",
    ["--json RUN a bc", "RUN a --max-len 13 bc --json", "RUN a --json -- bc", "--json -- RUN a bc"],
)
def test_options_may_stand_anywhere(order, cli, trained):
    document = cli(f"decode {order.replace('RUN', str(trained))}").document
    assert [entry["input"] for entry in document] == ["a", "bc"]


def test_many_lines_go_in_batches_and_keep_their_order(cli, trained, typed, echo):
    texts = words(601)
    typed("\n".join(texts).encode())
    assert cli(f"decode {trained}").lines == [text.upper() for text in texts]
    assert echo == [250, 250, 101]


def test_a_person_who_types_is_answered_line_by_line(cli, trained, typed, echo):
    typed(b"ab\ncd\n", terminal=True)
    done = cli(f"decode {trained}")
    assert (done.out, echo) == ("AB\nCD\n", [1, 1])
    assert "Ctrl-D ends" in done.err


def test_empty_input_gives_empty_output(cli, trained, typed):
    typed(b"")
    assert cli(f"decode {trained}").fine().out == ""
    assert cli(f"decode {trained} --json").document == []


def test_best_takes_the_best(cli, trained, copied):
    run = copied("run")
    latest = load_checkpoint(list_checkpoints(run / "checkpoints")[-1])
    other = {name: -array if name.startswith("parameters.") else array for name, array in latest.arrays.items()}
    save_checkpoint(run / "checkpoints", 40, other, latest.state, None)
    by_latest, by_best = (read_trained(RunDirectory(run), "numpy", best).model for best in (False, True))
    for name, parameter in by_best.named_parameters():
        assert (parameter.data == latest.arrays[f"parameters.{name}"]).all()
    for name, parameter in by_latest.named_parameters():
        assert (parameter.data == -latest.arrays[f"parameters.{name}"]).all()
    assert cli("decode run --best", *words(5)).out == cli(f"decode {trained}", *words(5)).out


WAYS = {
    "": {},
    "--beam 3": {"beam": 3},
    "--temperature 2 --seed 5": {"temperature": 2.0, "seed": 5},
    "--top-k 2": {"top_k": 2},
}


@pytest.mark.parametrize("words_of", WAYS)
def test_decode_in_python_is_the_command(cli, trained, words_of):
    texts, way, model = words(5), WAYS[words_of], npf.load(trained)
    told = cli(f"decode {trained} {words_of}", *texts).out.splitlines()
    assert npf.decode(model, texts, **way) == npf.decode(trained, texts, **way) == told
    ids = npf.decode(model, [model.tokenizer.encode(text) for text in texts], **way)
    assert [model.tokenizer.decode(row) for row in ids] == told
    assert npf.decode(model, texts[0]) == cli(f"decode {trained}", texts[0]).out.rstrip("\n")


def test_max_len_bounds_the_output(cli, trained):
    texts = words(30)
    whole, short = (
        [entry["output"] for entry in cli(f"decode {trained} --json {limit}", *texts).document]
        for limit in ("", "--max-len 2")
    )
    assert max(map(len, whole)) > 2
    assert short == [output[:2] for output in whole]


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        ("abc abC", ["text 2: expected a text of the 29 pieces", "got 'C' (U+0043) in 'abC'; leave"]),
        ("abc --max-len 0", ["--max-len: expected an integer >= 1, got 0"]),
        ("abc --bst", ["unknown argument '--bst'; did you mean --best?"]),
        ("-abc", ["unknown argument '-abc'", "goes after a lone --"]),
        ("-- -abc", ["text 1: expected a text of the 29", "got '-' (U+002D)"]),
    ],
)
def test_bad_texts_and_options(stdin, message, cli, trained, unchanged):
    with unchanged(trained):
        cli(f"decode {trained} {stdin}").refused(*message)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"ab\ncd\xff\n", ["standard input, line 2: expected UTF-8", "cd\\xff"]),
        (b"ab\n\ncd\n", ["standard input, line 2: expected at least one character"]),
        ("ab\ncd\nÄh".encode(), ["standard input, line 3: expected a text of", "got 'Ä' (U+00C4)"]),
    ],
)
def test_bad_lines_are_named(data, message, cli, trained, typed):
    typed(data)
    cli(f"decode {trained}").refused(*message)


def test_a_folder_without_a_run_or_a_checkpoint_is_refused(cli, copied):
    cli("decode nowhere a").refused("nowhere: expected the folder of a run", "found nothing")
    run = copied("run")
    for path in list_checkpoints(run / "checkpoints"):
        checkpoint = load_checkpoint(path)
        shutil.rmtree(path)
    for words in ("", "--best"):
        cli(f"decode run a {words}").refused("expected at least one checkpoint, found none")
    save_checkpoint(run / "checkpoints", 1, checkpoint.arrays, checkpoint.state, None)
    cli("decode run a").fine()
    cli("decode run a --best").refused("expected a checkpoint with a score", "leave --best out")


def test_learned_positions_limit_the_length(cli, train_small):
    train_small("copy --out run", positions="learned", max_length=4, steps=2).fine()
    cli("decode run abcd").fine()
    cli("decode run ab abcde").refused("text 2: expected at most 4 characters", "learned 5 positions", "got 5")
    cli("decode run ab --max-len 6").refused("--max-len: expected at most 5", "got 6")
