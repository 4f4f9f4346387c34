"""A text of one's own: split without leakage, every passage once, and windows of the characters or words it has."""

import numpy as np
import pytest

from npformer.data import Characters, SpelledWords, text_from_file
from npformer.data.own_text import split_text
from npformer.errors import DataError
from tests.data.test_text_task import WORDS


def prose(paragraphs, seed=0, glue="\n\n", words=40):
    random = np.random.default_rng(seed)
    return glue.join(" ".join(random.choice(WORDS, words)) for _ in range(paragraphs)) + "\n"


@pytest.mark.parametrize("glue", ["\n\n", "\n \t\n\n", "\n"])
@pytest.mark.parametrize("fraction", [0.02, 0.1, 0.5, 0.9])
def test_passages_are_on_one_side_and_none_is_lost(glue, fraction):
    text = prose(200, glue=glue)
    train, held_out = split_text(text, fraction)
    passages = [each.strip() for each in text.split(glue)]
    sides = [{each.strip() for each in side.split(glue)} - {""} for side in (train, held_out)]
    assert sides[0] | sides[1] == set(passages) - {""}
    assert not sides[0] & sides[1]
    assert sorted(train + held_out) == sorted(text)
    assert len(held_out) / len(text) == pytest.approx(fraction, abs=0.02)
    assert len(held_out) <= fraction * len(text)


def test_equal_passages_are_on_the_same_side():
    """However they are laid out; and training has them as often as the text."""
    verse = prose(60).strip().split("\n\n")
    refrain = [each.replace(" ", "\n", 5) for each in verse]
    train, held_out = split_text("\n\n".join([*verse, *refrain, *verse]), 0.1)
    known = {" ".join(each.split()) for each in train.split("\n\n")}
    assert not known & {" ".join(each.split()) for each in held_out.split("\n\n")} - {""}
    assert len([each for each in train.split("\n\n") if each.strip()]) == 3 * len(known - {""})


@pytest.mark.parametrize("fraction", [0.02, 0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("blank", [" \n\n", "\t \n \n\n\n"])
def test_white_space_alone_is_on_the_training_side(blank, fraction):
    """As before a text: it would be a passage to evaluate that says nothing."""
    train, held_out = split_text(blank + prose(300), fraction)
    assert train.startswith(blank)
    assert not held_out.startswith(blank)


def test_the_split_depends_on_the_text_alone_and_not_on_its_order():
    verse = prose(100).strip().split("\n\n")
    one, other = (split_text("\n\n".join(each) + "\n\n", 0.1) for each in (verse, verse[::-1]))
    for here, there in zip(one, other, strict=True):
        assert sorted(here.split("\n\n")) == sorted(there.split("\n\n"))


@pytest.mark.parametrize(
    "text",
    [
        prose(1, words=4_000),  # one line
        prose(1, words=4_000).replace(" ", ""),  # without a space
        prose(3, words=2_000),
        "\n\n".join([prose(1, words=2_000), *prose(4, seed=1).split("\n\n")]),
        prose(300, glue="\n", words=3),
    ],
)
def test_a_text_without_paragraphs_is_split_too(text):
    train, held_out = split_text(text, 0.1)
    assert sorted(train + held_out) == sorted(text)
    assert 0.05 <= len(held_out) / len(text) <= 0.1


@pytest.mark.parametrize("text", ["a", "ab", "   \n"])
def test_a_text_that_cannot_be_split_is_told(text, tmp_path):
    assert split_text(text, 0.1) is None
    (tmp_path / "a.txt").write_text(text + "x" * (not text.strip()))
    with pytest.raises(
        DataError, match=r"a\.txt: expected a text of which a share of 0\.1 can be held out, got one of length \d+"
    ):
        text_from_file(tmp_path / "a.txt")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(prose(100) + "€" + prose(40, seed=3), encoding="utf-8")
    return path


@pytest.mark.parametrize(("tokenizer", "kind"), [("characters", Characters), ("words", SpelledWords)])
def test_windows_are_parts_of_the_text(path, tokenizer, kind):
    task = text_from_file(path, tokenizer=tokenizer, max_length=20)
    text = path.read_text(encoding="utf-8")
    train, held_out = split_text(text, 0.1)
    assert (task.name, task.kind, type(task.tokenizer)) == ("mine.txt", "causal", kind)
    for row in task.batch(5, 16).targets:
        assert task.tokenizer.decode(row) in train
        assert task.vocabulary.id_of("[UNK]") not in row
    assert "".join(source for source, _ in task.held_out()) == held_out
    assert not [row for row in task.collate(task.held_out()).targets if task.vocabulary.id_of("[UNK]") in row]


def test_words_are_learnt_from_the_training_side_alone(tmp_path):
    train_words = [f"q{a}{b}" for a in "klmnp" for b in "stvwxyz"]  # a word for each passage
    verse = [f"{words} {word} {word} {word}" for word, words in zip(train_words, prose(35).split("\n\n"), strict=True)]
    path = tmp_path / "mine.txt"
    path.write_text("\n\n".join(each.replace("\n", " ") for each in verse), encoding="utf-8")
    train, held_out = split_text(path.read_text(encoding="utf-8"), 0.1)
    learnt = text_from_file(path, tokenizer="words", max_length=20).vocabulary.text_pieces
    assert [word for word in train_words if word in held_out]
    assert {word for word in train_words if f" {word}" in learnt} == {word for word in train_words if word in train}
    assert len(text_from_file(path, tokenizer="words", max_length=20, max_pieces=60).vocabulary) == 60
