"""npformer train --from: a run starts with another's weights; what does not fit is refused before anything is made."""

import shutil

import pytest

import npformer as npf
from npformer.cli.main import main
from npformer.run import RunDirectory, metrics
from npformer.run.checkpoint import latest_checkpoint, load_checkpoint
from npformer.run.model_arrays import model_arrays_of
from npformer.run.model_file import load_trained
from npformer.run.trained import load_latest
from tests.cli.conftest import TINY, argv, assignments, options_of

LAYERS = {"num_encoder_layers": 1, "num_decoder_layers": 1}
LM = {"num_layers": 1, "max_length": 8}
OLD = "".join(f"a{n}\tb{n % 7}\n" for n in range(40))
NEW = "".join(f"ä{n}\tß{n % 5}\n" for n in range(40))
TEXT = "der Hund bellt. die Katze miaut.\n" * 40


@pytest.fixture(scope="session")
def sources(tmp_path_factory):
    """A folder with a run of pairs and one of lm, their data, and a model's file; not to be changed."""
    folder = tmp_path_factory.mktemp("sources")
    (folder / "old.tsv").write_text(OLD)
    (folder / "text.txt").write_text(TEXT)
    for line, options in (
        (f"train pairs --data {folder}/old.tsv --out {folder}/pairs", TINY | LAYERS),
        (f"train lm --data {folder}/text.txt --out {folder}/lm", TINY | LM),
    ):
        assert main(argv(line, *assignments(options))) == 0
    npf.save(npf.load(folder / "pairs"), folder / "pairs.safetensors")
    return folder


@pytest.fixture
def start(cli, sources, tmp_path):
    """Start a run with some of the usual options of a small one; {of} in the line is the folder of the sources."""
    (tmp_path / "new.tsv").write_text(NEW)
    few = {name: value for name, value in TINY.items() if name not in ("d_model", "d_ff", "num_heads")}

    def call(line, **changes):
        return cli(f"train {line.format(of=sources)}", *assignments(few | changes))

    return call


def weights(run):
    return model_arrays_of(load_checkpoint(latest_checkpoint(run / "checkpoints")))


def test_with_the_same_data_and_no_step_every_bit_is_the_same(start, sources, tmp_path):
    done = start("pairs --from {of}/pairs --data {of}/old.tsv --out same", steps=0).fine()
    done.warns("checkpoints/step-00000004; all 15 pieces of the data are known")
    then, now = weights(sources / "pairs"), weights(tmp_path / "same")
    assert {name: array.tobytes() for name, array in now.items()} == {
        name: array.tobytes() for name, array in then.items()
    }
    files = [(folder / "vocabulary.txt").read_bytes() for folder in (sources / "pairs", tmp_path / "same")]
    assert files[0] == files[1]
    one, other = (metrics.read(folder / "metrics.jsonl")[-1] for folder in (sources / "pairs", tmp_path / "same"))
    assert one["loss"] == other["loss"], "and so is what it finds"


def test_new_pieces_are_said_and_old_rows_are_kept(start, sources, tmp_path):
    done = start("pairs --data new.tsv --from {of}/pairs --out more", steps=0).fine()
    done.warns("2 pieces are new, and their rows are drawn anew: 'ß', 'ä'; 2 further pieces of the source are kept")
    lists = [(folder / "vocabulary.txt").read_text().splitlines() for folder in (sources / "pairs", tmp_path / "more")]
    assert lists[1] == [*lists[0], "ß", "ä"]
    then, now = weights(sources / "pairs"), weights(tmp_path / "more")
    grown = {name for name in then if then[name].shape != now[name].shape}
    assert grown == {"src_embedding.weight", "tgt_embedding.weight", "generator.weight", "generator.bias"}
    for name, old in then.items():
        kept = now[name][tuple(slice(size) for size in old.shape)]
        assert kept.tobytes() == old.tobytes(), name
    assert now["src_embedding.weight"][len(lists[0]) :].all(), "drawn, not zero"


def test_it_trains_resumes_without_its_source_reports_and_decodes(start, cli, tmp_path, sources):
    shutil.copytree(sources / "pairs", tmp_path / "source")
    for out in ("straight", "parts"):
        start(f"pairs --data new.tsv --from source --out {out}", steps=3 if out == "parts" else 6, schedule="constant",
              warmup_steps=1).fine()  # fmt: skip
    shutil.rmtree(tmp_path / "source")
    cli("train --resume parts --set steps=6").fine()
    one, other = (load_latest(RunDirectory(tmp_path / out)) for out in ("straight", "parts"))
    for name, array in one.arrays.items():
        assert array.tobytes() == other.arrays[name].tobytes(), name
    cli("report parts").fine()
    cli("decode parts ä7").quiet()
    assert options_of(tmp_path / "parts")["run"]["init_from"].endswith("source/checkpoints/step-00000004")
    cli("train --config parts/config.toml").refused("source: expected the folder of a run", "found nothing")
    assert "npformer train --config " in (tmp_path / "parts" / "report.html").read_text()


def test_a_files_model_and_a_named_checkpoint_are_sources_too(start, sources, tmp_path):
    start("pairs --data new.tsv --from {of}/pairs.safetensors --out one", steps=0).fine()
    start("pairs --data new.tsv --from {of}/pairs/checkpoints/step-00000004 --out other", steps=0).fine()
    one, other = weights(tmp_path / "one"), weights(tmp_path / "other")
    assert all(one[name].tobytes() == array.tobytes() for name, array in other.items())


def test_a_language_model_keeps_its_window_and_its_tokenizer(start, sources, tmp_path):
    (tmp_path / "more.txt").write_text("the dog barks; the cat mews.\n" * 40)
    start("lm --data more.txt --from {of}/lm --out run", steps=2, max_length=5).fine()
    assert options_of(tmp_path / "run")["model"]["max_seq_len"] == 8


def test_decode_takes_a_models_file(cli, sources):
    texts = ("a1", "a2")
    of_run = cli(f"decode {sources}/pairs", *texts).quiet().out
    assert cli(f"decode {sources}/pairs.safetensors", *texts).quiet().out == of_run
    assert load_trained(sources / "pairs.safetensors").kind == "translate"


#: What people get wrong around these: the command, and words of the one message.
MISTAKES = {
    "a path with nothing": ("pairs --data new.tsv --from nowhere", "nowhere: expected the folder of a run", "nothing"),
    "a folder that is no run": ("pairs --data new.tsv --from empty", "a folder without config.toml"),
    "a run without a checkpoint": (
        "pairs --data new.tsv --from bare", "expected at least one checkpoint, found none: it stopped before the first",
    ),
    "a run of another kind of task": (
        "lm --data old.txt --from {of}/pairs", "expected a model for the task lm, got one for another kind of task",
        "such as copy, reverse, sort, pairs", "start from a run of lm",
    ),
    "a run with another tokenizer": (
        "scan --from {of}/pairs", "whose tokenizer is Words, as the data's, got one with Characters",
    ),
    "another model": (
        "pairs --data new.tsv --from {of}/pairs --set d_model=32", "model.d_model: expected 8, as --from ",
    ),
    "another dtype": ("pairs --data new.tsv --from {of}/pairs --set dtype=float64", "run.dtype: expected float32"),
    "a file without a tokenizer": (
        "pairs --data new.tsv --from bare.safetensors", "expected a model with its tokenizer, found none",
        "npf.save(model, path, tokenizer=tokenizer)",
    ),
    "a file that is no model": ("pairs --data new.tsv --from new.tsv", "new.tsv: expected a whole safetensors file"),
    "both --from and --resume": ("--resume {of}/pairs --from {of}/pairs", "--resume: expected no other options"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_message_and_nothing_is_written(mistake, cli, sources, tmp_path, unchanged):
    line, *words = mistake
    (tmp_path / "new.tsv").write_text(NEW)
    (tmp_path / "old.txt").write_text(TEXT)
    (tmp_path / "empty").mkdir()
    shutil.copytree(sources / "pairs", tmp_path / "bare", ignore=shutil.ignore_patterns("checkpoints"))
    (tmp_path / "bare" / "checkpoints").mkdir()
    model = npf.load(sources / "pairs")
    model.tokenizer = None
    npf.save(model, tmp_path / "bare.safetensors")
    with unchanged(tmp_path), unchanged(sources):
        done = cli(f"train {line.format(of=sources)}")
        done.refused("npformer: ", *words)
    assert done.err.count("npformer: ") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("decode bare.safetensors a1", ("found none: save it with one", "or give the folder of a run")),
        ("decode {of}/pairs.safetensors a1 --best", ("best: expected the folder of a run, which has checkpoints",)),
    ],
)
def test_what_decode_cannot_take(line, words, cli, sources, tmp_path):
    model = npf.load(sources / "pairs")
    model.tokenizer = None
    npf.save(model, tmp_path / "bare.safetensors")
    cli(line.format(of=sources)).refused(*words)


def test_a_source_with_too_few_positions_is_refused(cli, start, tmp_path):
    (tmp_path / "short.tsv").write_text(OLD)
    learned = TINY | LAYERS | {"positions": "learned"}
    cli("train pairs --data short.tsv --out source", *assignments(learned)).fine()
    (tmp_path / "long.tsv").write_text("".join(f"{'a' * 30}{n}\tb\n" for n in range(40)))
    start("pairs --data long.tsv --from source").refused(
        "expected sequences of at most 4 tokens, the positions that it has learned, got one of 33", "shorten the data"
    )
