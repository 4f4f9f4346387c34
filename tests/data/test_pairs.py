"""Pairs from a file: refusals name the line, epochs lose nothing, the split is stable."""

import codecs
import hashlib
from collections import Counter

import numpy as np
import pytest

from npformer.data import Example, PairsTask
from npformer.data.own_text import split_text
from npformer.errors import ConfigError, DataError
from tests.data.epochs import epoch, rows


def write(folder, content):
    path = folder / "pairs.tsv"
    path.write_bytes(content)
    return path


def numbers(count):
    """Sources of lengths 1 to 12, all different; the target is the source, doubled."""
    sources = [f"{n}" + "x" * (n % 9) for n in range(count)]
    return [Example(source, source * 2) for source in sources]


def pairs(examples, seed=0, **options):
    return PairsTask(examples, name="t", digest="", seed=seed, **options)


def as_tsv(examples):
    return "".join(f"{source}\t{target}\n" for source, target in examples).encode()


@pytest.fixture
def task(tmp_path):
    return PairsTask.from_tsv(write(tmp_path, as_tsv(numbers(500))), seed=0)


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_task_is_named_by_its_file_and_known_by_its_bytes(tmp_path):
    path = write(tmp_path, as_tsv(numbers(60)))
    task = PairsTask.from_tsv(path, seed=0)
    assert (task.name, task.digest) == ("pairs.tsv", hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.mark.parametrize("batch_size", [1, 7, 32, 450, 1000])
def test_every_training_example_comes_once_per_epoch(task, batch_size):
    expected = Counter(numbers(500)) - Counter(task.held_out())
    steps = -(-task.train_size // batch_size)
    for turn in range(2):
        batches = [task.batch(turn * steps + step, batch_size) for step in range(1, steps + 1)]
        assert Counter(row for batch in batches for row in rows(task, batch)) == expected
        sizes = sorted(len(batch.src) for batch in batches)
        assert sizes[1:] == [batch_size] * (steps - 1)


def test_epochs_differ_in_order(task):
    steps = -(-task.train_size // 32)
    assert not any(same(task.batch(step, 32), task.batch(step + steps, 32)) for step in range(1, steps + 1))


def test_batches_of_like_length_need_little_padding(task):
    sources = [task.batch(step, 16).src for step in range(1, task.train_size // 16 + 1)]
    assert sum((src == 0).sum() for src in sources) < 0.1 * sum(src.size for src in sources)
    widths = [src.shape[1] for src in sources]
    assert widths != sorted(widths), "batches come shuffled, not from short to long"


def test_equal_sources_fall_on_one_side():
    examples = [Example(source, target) for source, _ in numbers(300) for target in ("a", "b", "c")]
    task = pairs(examples)
    held_out = Counter(example.source for example in task.held_out())
    assert set(held_out.values()) == {3}
    assert not {row.source for row in epoch(task)} & set(held_out)


def test_repeated_lines_are_trained_on_as_often_and_held_out_once():
    examples = numbers(200) * 2
    task = pairs(examples)
    assert len(set(task.held_out())) == len(task.held_out())
    seen = Counter(epoch(task))
    assert set(seen.values()) == {2}
    assert len(seen) + len(task.held_out()) == 200


def test_the_split_is_stable_under_seed_order_and_added_lines():
    def held_out(examples, seed):
        return pairs(examples, seed=seed).held_out()

    expected = held_out(numbers(300), 0)
    assert held_out(numbers(300)[::-1], 7) == expected
    assert set(held_out(numbers(600), 0)) & set(numbers(300)) == set(expected)


def test_held_out_prefixes_are_samples_of_the_whole_file():
    task = pairs(numbers(2000))
    assert task.held_out(20) == task.held_out()[:20]
    places = [numbers(2000).index(example) for example in task.held_out(40)]
    assert places != sorted(places)
    assert min(places) < 400
    assert max(places) > 1600


def test_marks_line_ends_and_odd_characters_are_read_as_they_are(tmp_path):
    lines = [f"{n}\u2028e\u0301\t\u00e9\x85 {n}" for n in range(100)]
    plain = "\n".join(lines).encode()
    expected = PairsTask.from_tsv(write(tmp_path, plain), seed=0)
    for content in (plain + b"\n", codecs.BOM_UTF8 + plain, plain.replace(b"\n", b"\r\n") + b"\r\n"):
        other = PairsTask.from_tsv(write(tmp_path, content), seed=0)
        assert other.held_out() == expected.held_out()
        assert same(other.batch(1, 200), expected.batch(1, 200))
        assert other.digest != expected.digest
    source, target = expected.held_out()[0]
    assert source.endswith("\u2028e\u0301")
    assert target.startswith("\u00e9\x85 ")
    assert {"\u0301", "\u00e9"} <= set(expected.vocabulary.pieces)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\n".encode("utf-16"), "line 1: expected UTF-8, got byte 0xff"),
        (b"a\tb\nc\tdl\nfail\n", "line 3: expected source<TAB>target, got no tab: 'fail'"),
        (b"a\tb\nc\td\te\n", "line 2: expected source<TAB>target, got 2 tabs: "),
        (b"a\tb\n\nc\td\n", "line 2: expected source<TAB>target, got an empty line"),
        (b"a\tb\r\n\r\n", "line 2: expected source<TAB>target, got an empty line"),
        (b"a\tb\n\tc\n", "line 2: expected a source, got an empty one: .*; fill it in or delete the line"),
        (b"a\tb\r\nb\t\r\n", "line 2: expected a target, got an empty one"),
        ("a\u2028\tb\nx".encode(), "line 2: expected source<TAB>target, got no tab"),
        (b"input,output\na,b\n", "line 1: .* got no tab: 'input,output'; if commas separate its columns, save the"),
        (b"a\tb\rc\td\r", r"expected lines that end in \\n or \\r\\n, got 2 carriage returns alone .* 0 line feeds"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path, content, message):
    with pytest.raises(DataError, match=rf"pairs\.tsv(, |: ){message}"):
        PairsTask.from_tsv(write(tmp_path, content), seed=0)


@pytest.mark.parametrize(
    ("first", "is_header"),
    [
        *((line, True) for line in ("source\ttarget", "Input_Text\tOutput text\r", "src1\ttgt2", "question\tanswer",
                                    "en\tde", "German\tEnglish", "SRC\tTGT", "prompt\tresponse")),
        *((line, False) for line in ("source\tsource", "Quelle\tsource", "the source\tthe target", "1\t2", "x\ty",
                                     "english\ten", "it\tes", "target\tsource", "from\tto", "en\tne",
                                     "en\ten", "Dutch\tdutch", "--\t..")),
    ],
)  # fmt: skip
def test_a_header_is_told_and_a_pair_is_not(tmp_path, first, is_header):
    task = PairsTask.from_tsv(write(tmp_path, first.encode() + b"\n" + as_tsv(numbers(60))), seed=0)
    assert bool(task.doubt) == is_header
    if is_header:
        assert ", line 1: expected a pair, got what looks like a header, " in task.doubt
        assert "delete the line (tail -n +2 OLD > NEW) and start again" in task.doubt
    assert len(task.held_out()) + task.train_size == 61, "it is a pair as long as its owner says so"


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, float("nan")])
@pytest.mark.parametrize(
    "split",
    [
        lambda fraction: pairs(numbers(20), held_out_fraction=fraction),
        lambda fraction: split_text("a few words", fraction),
    ],
)
def test_a_fraction_outside_its_bounds_is_refused(split, fraction):
    with pytest.raises(ConfigError, match="held_out_fraction: expected more than 0 and less than 1, got"):
        split(fraction)
