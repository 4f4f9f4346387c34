"""Examples that are looked at: a batch of texts with targets, and the one whose attention is drawn."""

import numpy as np
import pytest

from npformer.data import SEQUENCE, Characters, Example, Vocabulary
from npformer.data.vocabulary import SPECIAL
from npformer.errors import DataError, TokenError
from npformer.models import Transformer, TransformerConfig
from npformer.run.predictions import attention_example
from npformer.run.text_example import encode, text_example
from npformer.run.trained import Trained
from npformer.training.evaluation import likeliest
from tests.run.runs import model_of

LETTERS = Vocabulary.from_characters("abcd", SPECIAL)
SIZE = {"d_model": 8, "num_heads": 2, "d_ff": 8, "max_seq_len": 6}
CLASSES = ("[PAD]", "noun", "verb")
PAD, BOS, EOS, MASK = (LETTERS.id_of(piece) for piece in ("[PAD]", "[BOS]", "[EOS]", "[MASK]"))


@pytest.fixture
def trained(numpy64):
    """A model of a kind of task, untrained."""

    def make(kind, **changes):
        classes = CLASSES if kind in ("classify", "tag") else ()
        model = model_of(kind, len(LETTERS), len(classes), numpy64, **SIZE | changes)
        return Trained(model, Characters(LETTERS), classes, kind)

    return make


def ids(text, *more):
    return [*(LETTERS.id_of(letter) for letter in text), *more]


def test_a_translation(trained):
    example = text_example(trained("translate"), ["abc", "d"], ["cba", "d"])
    assert [x.tolist() for x in example.inputs] == [
        [ids("abc", EOS), ids("d", EOS, PAD, PAD)],
        [[BOS, *ids("cba")], [BOS, *ids("d", PAD, PAD)]],
    ]
    assert example.targets.tolist() == [ids("cba", EOS), ids("d", EOS, PAD, PAD)]
    assert example.tokens["target_in"] == [["[BOS]", "c", "b", "a"], ["[BOS]", "d", "[PAD]", "[PAD]"]]


@pytest.mark.parametrize("kind", ["translate", "tag", "masked"])
def test_letters_that_the_vocabulary_lacks_are_refused_by_name(trained, kind):
    """Though it has [UNK]: no text of the training became that. An answer is a text, too."""
    many = "".join(map(chr, range(0x410, 0x41C)))
    text = r"of the 11 pieces .* got 'А' \(U\+0410\), 'Б' \(U\+0411\).* 'Й' \(U\+0419\) and 2 more in 'a"
    with pytest.raises(TokenError, match=text):
        text_example(trained(kind), [f"a[MASK]{many}" if kind == "masked" else f"a{many}"])
    if kind != "tag":
        with pytest.raises(TokenError, match=r"got 'é' \(U\+00E9\) in 'béc'"):
            text_example(trained(kind), ["a[MASK]c" if kind == "masked" else "abc"], ["béc"])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_without_an_answer_a_translation_is_the_models_own(trained, positions):
    model = trained("translate", positions=positions)
    model.model.generator.bias.data[LETTERS.id_of("a")] = 1e9  # it writes the same letter for ever
    example = text_example(model, ["abc"])
    again = text_example(model, ["abc"], example.answers)
    assert np.array_equal(example.targets, again.targets)
    model.model.forward(*example.inputs)  # it fits the learned positions


def test_a_class(trained):
    model = trained("classify")
    example = text_example(model, ["ab", "c"], ["verb", "noun"])
    cls = LETTERS.id_of("[CLS]")
    assert example.inputs[0].tolist() == [[cls, *ids("ab")], [cls, *ids("c", PAD)]]
    assert (example.targets.tolist(), example.tokens["target_out"]) == ([2, 1], [["verb"], ["noun"]])
    without_answer = text_example(model, ["ab", "c"])
    assert without_answer.targets.tolist() == likeliest(model.model(without_answer.inputs[0])).tolist()
    with pytest.raises(TokenError, match="expected one of noun, verb, got 'adverb'"):
        text_example(model, ["ab"], ["adverb"])


def test_a_class_for_each_token(trained):
    model = trained("tag")
    example = text_example(model, ["ab", "c"], ["verb noun", "noun"])
    assert example.targets.tolist() == [[2, 1], [1, PAD]]
    assert example.answers == ("verb noun", "noun")
    without_answer = text_example(model, ["ab", "c"])
    assert without_answer.targets[1, 1] == PAD
    assert len(without_answer.answers[0].split()) == 2
    with pytest.raises(DataError, match="expected 2 classes for 'ab', got 1"):
        text_example(model, ["ab"], ["verb"])


def test_hidden_tokens(trained):
    model = trained("masked")
    assert encode(model, "a[MASK]c") == [*ids("a"), MASK, *ids("c")]
    example = text_example(model, ["a[MASK]c"], ["abc"])
    assert (example.inputs[0].tolist(), example.targets.tolist()) == (
        [[*ids("a"), MASK, *ids("c")]],
        [[PAD, *ids("b"), PAD]],
    )
    assert example.answers == ("abc",)
    without_answer = text_example(model, ["a[MASK]c"])
    assert (without_answer.targets[0] != PAD).tolist() == [False, True, False]
    with pytest.raises(DataError, match="expected the text with one token in place of each"):
        text_example(model, ["a[MASK]c"], ["dbc"])
    with pytest.raises(DataError, match=r"expected a \[MASK\] in each"):
        text_example(model, ["abc"])


def test_the_next_tokens(trained):
    model = trained("causal")
    example = text_example(model, ["abc"])
    assert (example.inputs[0].tolist(), example.targets.tolist()) == ([[BOS, *ids("ab")]], [ids("abc")])
    example = text_example(model, ["ab", "c"], ["cd", "d"])
    assert example.inputs[0].tolist() == [[BOS, *ids("abc")], [BOS, *ids("c", PAD, PAD)]]
    assert example.targets.tolist() == [[PAD, PAD, *ids("cd")], [PAD, *ids("d"), PAD, PAD]]


def test_another_number_of_answers(trained):
    with pytest.raises(DataError, match="expected one for each of 2 texts"):
        text_example(trained("causal"), ["ab", "c"], ["d"])
    with pytest.raises(DataError, match="at least 1"):
        text_example(trained("causal"), [])


TEN = Characters.learn("abcdefghij", special=SEQUENCE)


def model(backend, **changes):
    pieces = len(TEN.vocabulary)
    size = {"d_model": 8, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 1, "d_ff": 8, "max_seq_len": 5}
    return Transformer(TransformerConfig(pieces, pieces, **(size | changes)), backend=backend, seed=1)


def test_it_is_the_one_nearest_to_ten_characters_with_its_own_output(numpy64):
    texts = ["ab", "abcdefghi", "abcdefghijabcd", "abc"]
    example = attention_example(model(numpy64), TEN, [Example(text, "?") for text in texts], ["a", "fgh", "b", "c"])
    assert example.source == [*"abcdefghi", "[EOS]"]
    assert example.target == ["[BOS]", *"fgh"]
    assert example.title == "abcdefghi → fgh"
    shapes = {name: weights.shape for name, weights in example.weights.items()}
    assert sorted(shapes.values()) == [(2, 4, 4), (2, 4, 10), (2, 10, 10), (2, 10, 10)]
    for weights in example.weights.values():
        np.testing.assert_allclose(np.sum(weights, axis=-1), 1, rtol=1e-12)


@pytest.mark.parametrize(("positions", "read"), [("learned", "abcd"), ("sinusoidal", "abcdefgh")])
def test_an_output_that_never_ended_fits_learned_positions(numpy64, positions, read):
    """With five positions the decoder has read [BOS] and four characters; the fifth it only said."""
    example = attention_example(model(numpy64, positions=positions), TEN, [Example("abcd", "abcd")], ["abcdefgh"])
    assert example.target == ["[BOS]", *read]
    assert example.title == "abcd → abcdefgh"
