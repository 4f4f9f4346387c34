"""A number in words: which feature, head, token or position; and the names that a reader of the layers knows."""

from dataclasses import replace

import numpy as np
import pytest

from npformer.check.cases.catalogue import catalogue
from npformer.functional import cross_entropy_backward, cross_entropy_forward
from npformer.see.explain import explanation, session
from npformer.see.explain.number import find, names_of_calls
from npformer.see.explain.words import ALONE, GRADIENT, PADDED, axis_words, quoted, what
from npformer.see.record.models import case_setting, model_setting, showcase_model


@pytest.mark.parametrize(
    ("at", "description"),
    [
        ("encoder.layers.0.self_attention.query.weight[1,3]",
         "the layer's input's feature 1 → head 1, dimension 1 of every query"),
        ("decoder.layers.0.cross_attention.key.weight[1,2]",
         "the memory's feature 1 → head 1, dimension 0 of every key"),
        ("decoder.layers.0.cross_attention.query.bias[1]", "added to head 0, dimension 1 of every query"),
        ("decoder.layers.0.self_attention.value.bias[3]", "added to head 1, dimension 1 of every value"),
        ("encoder.layers.0.self_attention.output.weight[2,1]",
         "head 1, dimension 0 → feature 1 of the attention's output"),
        ("encoder.layers.0.feed_forward.up.weight[1,5]", "feature 1 of the layer's input → hidden unit 5"),
        ("encoder.layers.0.feed_forward.down.weight[5,1]", "hidden unit 5 → feature 1 of the layer's output"),
        ("encoder.layers.0.norm1.gamma[2]", "the gain of feature 2 of every token"),
        ("encoder.layers.0.norm1.beta[2]", "added to feature 2 of every token"),
        ("src_embedding.weight[4,1]", 'feature 1 of the vector of token 4 ("o")'),
        ("generator.weight[1,3]", 'feature 1 of each token → the logit of class 3 ("b")'),
        ("generator.bias[2]", "added to the logit of class 2 ([EOS]) at every token"),
        ("decoder.layers.0@output[1,2,3]", 'feature 3 of token b1 t2 ("t") of what decoder.layers.0 returns'),
        ("encoder@output[0,0,3]", 'feature 3 of token b0 t0 ("b") of what encoder returns'),
    ],
)  # fmt: skip
def test_a_number_in_words(opened, at, description):
    assert what(opened, find(opened, at)) == description


@pytest.mark.parametrize(
    ("model", "at", "description"),
    [
        ("learned-positions", "tgt_positions.weight[2,1]", "feature 1 of the vector of position 2"),
        (
            "relative-positions",
            "encoder.layers.0.self_attention.score_bias.weight[3,1]",
            "added to head 1's scores of pairs at distances of bucket 3",
        ),
        ("classifier", "head.bias[1]", "added to the logit of class 1 at every token"),
        ("encoder", "head.bias[3]", 'added to the logit of class 3 ("b") at every token'),
    ],
)
def test_a_number_of_another_model(model, at, description):
    with session(model_setting(model)) as other:
        assert what(other, find(other, at)) == description


def test_classes_have_their_names():
    with session(replace(model_setting("classifier"), classes=("[PAD]", "da", "en"))) as classifier:
        assert what(classifier, find(classifier, "head.weight[1,2]")).endswith('the logit of class 2 ("en")')


def test_a_layer_alone_has_places_without_texts():
    case = next(case for case in catalogue("EncoderLayer: post, relu") if case.name == "EncoderLayer: post, relu")
    with session(case_setting(case)) as layer:
        assert what(layer, find(layer, "x[1,2,3]")) == "feature 3 of token b1 t2 of the input x"


def test_the_gradients_of_keys_and_values_have_their_names(opened):
    explained = explanation(opened, "encoder@output[0,1,2]")
    ups = [product.up for group in explained.terms.groups for product in group.products]
    assert ups == [*(f"dK[0,1,{i}]" for i in range(4)), *(f"dV[0,1,{i}]" for i in range(4))]


@pytest.fixture(scope="module")
def padded_apart():
    """A Transformer whose sources and targets are padded at different places of arrays of one shape."""
    src, tgt_in = np.array([[3, 4, 5, 2], [5, 4, 2, 0]]), np.array([[1, 5, 0, 0], [1, 4, 3, 5]])
    targets = np.array([[5, 2, 0, 0], [4, 3, 5, 0]])
    with session(replace(model_setting("transformer"), inputs=(src, tgt_in), targets=targets, labels={})) as opened:
        yield opened


@pytest.mark.parametrize(
    ("at", "of_targets"),
    [
        ("encoder.layers.0.feed_forward.down.bias[1]", False),
        ("encoder.layers.0.self_attention.query.bias[1]", False),
        ("decoder.layers.0.cross_attention.key.weight[1,2]", False),
        ("decoder.layers.0.cross_attention.value.bias[2]", False),
        ("decoder.layers.0.cross_attention.query.weight[1,2]", True),
        ("decoder.layers.0.feed_forward.down.bias[1]", True),
        ("generator.bias[2]", True),
    ],
)
def test_padding_is_that_of_the_sequence_which_a_part_works_on(padded_apart, at, of_targets):
    """The memory's projections, in the decoder, work on the source; a target that does not count is no padding."""
    groups = explanation(padded_apart, at).terms.groups
    zeros = {product.place: product.zero for group in groups for product in group.products if product.value == 0}
    sources, targets = {"b1 t3": PADDED}, {"b0 t2": PADDED, "b0 t3": PADDED, "b1 t3": GRADIENT}
    assert zeros == (targets if of_targets else sources)


def test_padding_as_a_class_has_a_gradient_and_nowhere_else():
    """The showcase's [PAD], id 0: p·counted/n of its logit; as target, key and query exactly 0."""
    model, inputs, targets, _ = showcase_model()
    logits, cache = model.forward(*inputs)
    _, kept = cross_entropy_forward(logits, targets)
    (dlogits,) = cross_entropy_backward(1.0, kept)
    model.backward(dlogits, cache)
    of_logit, *others = (dict(model.named_parameters())[name].grad[0]
                         for name in ("generator.bias", "src_embedding.weight", "tgt_embedding.weight"))  # fmt: skip
    assert of_logit == pytest.approx(np.sum(kept.p[targets > 0, 0]) / kept.num_counted)
    assert of_logit > 0
    assert not any(zeros.any() for zeros in (dlogits[targets == 0], *others))


def test_a_lone_key_is_the_reason_for_its_query_alone():
    """In the second row one target counts: its query sees one key, so its key has no gradient either, but from it."""
    src, tgt_in = np.array([[3, 4, 5, 2], [5, 4, 2, 0]]), np.array([[1, 5, 4, 3], [1, 0, 0, 0]])
    targets = np.array([[5, 4, 3, 2], [5, 0, 0, 0]])
    with session(replace(model_setting("transformer"), inputs=(src, tgt_in), targets=targets, labels={})) as opened:
        reasons = {}
        for name in ("query", "key"):
            (group,) = explanation(opened, f"decoder.layers.0.self_attention.{name}.weight[1,2]").terms.groups
            reasons[name] = {product.place: product.zero for product in group.products}["b1 t0"]
    assert reasons == {"query": ALONE, "key": GRADIENT}


@pytest.mark.parametrize("length", [3, 2])
def test_a_number_of_a_query_and_a_key_is_labelled_by_both(length):
    """If a head has as many dimensions as there are keys, the shape does not tell which of the two it is."""
    src, tgt_in = np.array([[3, 4, 5, 2][:length]]), np.array([[1, 5, 4, 3]])
    with session(replace(model_setting("transformer"), inputs=(src, tgt_in), targets=tgt_in, labels={})) as opened:
        cross = names_of_calls(opened)["decoder.layers.0.cross_attention.attention"]
        calls = names_of_calls(opened)["decoder.layers.0.self_attention.attention"]
        assert axis_words(opened, cross, (1, 2, 4, length), (0, 1, 2, 1)) == "b0 h1 t2" + "→t1" * (length != 2)
        assert axis_words(opened, cross, (1, 2, 4, 2), (0, 1, 2, 1)) == "b0 h1 t2"
        assert axis_words(opened, calls, (1, 2, 4, 4), (0, 1, 2, 3)) == "b0 h1 t2→t3"
        assert axis_words(opened, calls, (1, 2, 4, 2), (0, 1, 2, 1)) == "b0 h1 t2"
        assert axis_words(opened, calls, (1, 4, 8), (0, 2, 7)) == "b0 t2"
        assert axis_words(opened, calls, (5, 8), (2, 7)) == ""


def test_special_tokens_have_no_quotation_marks():
    assert [quoted(piece) for piece in ("a", "[EOS]", "<i>", "[", "\x1b")] == [
        '"a"',
        "[EOS]",
        '"<i>"',
        '"["',
        '"\\x1b"',
    ]
