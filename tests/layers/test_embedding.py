"""Embedding: initial values, pretrained vectors, and nearest neighbours."""

import numpy as np
import pytest

from npformer.data import SPECIAL, Vocabulary
from npformer.errors import ConfigError, DataError, ShapeError, TokenError
from npformer.layers import Embedding
from npformer.models import Encoder, EncoderConfig
from npformer.optim import Adam

WORDS = ("king", "queen", "man", "woman", "absent")
VOCABULARY = Vocabulary((*SPECIAL, *WORDS))
FILE = "king 1 0 2 0.5\nother 9 9 9 9\nqueen 1 1 2 0.5\nman 1 0 0 -0.5\nwoman 1 1 0 -0.5\n"
MODEL = {"d_model": 4, "num_heads": 2, "d_ff": 8, "num_layers": 1, "dropout": 0.0}


@pytest.fixture
def path(tmp_path):
    """A file of four vectors of width 4 that the vocabulary knows, and one that it does not."""
    (tmp_path / "vectors.txt").write_text(FILE)
    return tmp_path / "vectors.txt"


def rows(backend, embedding, *words):
    """The vectors of words, on the host."""
    return np.asarray(backend.host(embedding.weight.data))[[VOCABULARY.id_of(word) for word in words]]


@pytest.mark.parametrize("name", ["numpy32", "numpy64", "strict64", pytest.param("cupy64", marks=pytest.mark.gpu)])
def test_vectors_from_a_file_and_the_usual_start_for_others(name, path, request):
    backend = request.getfixturevalue(name)
    embedding, coverage = Embedding.from_pretrained(path, VOCABULARY, backend=backend, seed=5)
    assert str(coverage) == "4 of 5 covered (80.0 %); missing: 'absent'"
    expected = [[1, 0, 2, 0.5], [1, 1, 2, 0.5], [1, 0, 0, -0.5], [1, 1, 0, -0.5]]
    np.testing.assert_array_equal(rows(backend, embedding, *WORDS[:4]), expected)
    usual = Embedding(len(VOCABULARY), 4, backend=backend, seed=5)
    others = ("absent", *SPECIAL)
    np.testing.assert_array_equal(rows(backend, embedding, *others), rows(backend, usual, *others))
    assert str(embedding.weight.data.dtype).endswith(backend.dtype)
    tokens = backend.integers(np.array([[VOCABULARY.id_of("queen")]]))
    np.testing.assert_array_equal(backend.host(embedding(tokens)), [[[1, 1, 2, 0.5]]])


def test_vectors_from_a_file_are_scaled_if_asked_for(path, numpy64):
    embedding, _ = Embedding.from_pretrained(path, VOCABULARY, scale=True, d_model=4, backend=numpy64)
    np.testing.assert_array_equal(embedding(np.array([[VOCABULARY.id_of("queen")]])), [[[2, 2, 4, 1]]])  # √C = 2


def test_another_width_or_vocabulary_is_refused(path, numpy64):
    with pytest.raises(DataError, match=r"vectors\.txt, line 1: expected vectors of width C=6, got 4; choose"):
        Embedding.from_pretrained(path, VOCABULARY, d_model=6, backend=numpy64)
    with pytest.raises(ShapeError, match="vocabulary: expected V=9 pieces, one for each row, got 12; make"):
        Embedding(9, 4, backend=numpy64).load_pretrained(path, VOCABULARY)


def test_a_file_that_breaks_off_changes_nothing(path, numpy64):
    embedding = Embedding(len(VOCABULARY), 4, backend=numpy64)
    before = embedding.weight.data.copy()
    path.write_text(FILE + "broken 1 2\n")
    with pytest.raises(DataError, match=r"vectors\.txt, line 6: expected a word and 4 numbers"):
        embedding.load_pretrained(path, VOCABULARY)
    assert np.array_equal(embedding.weight.data, before)


@pytest.mark.parametrize("frozen", [True, False])
def test_a_models_table_is_loaded_in_its_arena_and_frozen_or_tuned(path, any64, frozen):
    config = EncoderConfig(vocab_size=len(VOCABULARY), head="sequence", num_classes=2, **MODEL)
    model = Encoder(config, backend=any64)
    model.embedding.load_pretrained(path, VOCABULARY)
    segment = next(s for s in model.arena.segments if s.name == "embedding.weight")
    loaded = model.arena.view(model.arena.values, segment).copy()
    np.testing.assert_array_equal(loaded[VOCABULARY.id_of("king")], [1, 0, 2, 0.5])
    if frozen:
        model.arena.configure("embedding", trainable=False)
    head = model.head.weight.data.copy()
    logits, cache = model.forward(np.array([[VOCABULARY.id_of(word) for word in WORDS]]))
    model.backward(np.ones_like(logits) * [1.0, -2.0], cache)
    Adam(model.arena, lr=0.01).step()
    assert np.array_equal(model.embedding.weight.data, loaded) == frozen
    assert not np.array_equal(model.head.weight.data, head)


@pytest.mark.parametrize("name", ["numpy32", "numpy64", "strict64", pytest.param("cupy64", marks=pytest.mark.gpu)])
def test_neighbours_are_those_of_the_definition(name, request):
    backend = request.getfixturevalue(name)
    embedding = Embedding(40, 5, backend=backend, seed=1)
    table = np.asarray(backend.host(embedding.weight.data), np.float64)
    for query in (0, 17, np.int64(39), backend.array(np.arange(1.0, 6.0)), [5, -4, 3, -2, 1]):
        ids, similarities = embedding.nearest(query, k=7)
        host = backend.host(query) if backend.device.owns(query) else np.asarray(query)
        vector = table[int(host)] if host.ndim == 0 else host
        cosine = table @ vector / np.linalg.norm(table, axis=1) / np.linalg.norm(vector)
        order = [i for i in np.argsort(-cosine) if host.ndim or i != host][:7]
        assert ids.tolist() == order
        np.testing.assert_allclose(similarities, cosine[order], rtol=1e-5 if backend.dtype == "float32" else 1e-12)


def test_length_does_not_matter_equals_come_by_id_and_zeros_are_like_nothing(numpy64):
    embedding = Embedding(6, 2, backend=numpy64)
    embedding.weight.data[...] = [[0, 0], [100, 0], [0, 1e-9], [-1, 0], [3, 3], [2, 0]]
    ids, similarities = embedding.nearest(np.array([1.0, 0.0]))
    assert ids.tolist() == [1, 5, 4, 0, 2, 3]
    np.testing.assert_allclose(similarities, [1, 1, np.sqrt(0.5), 0, 0, -1], atol=1e-15)
    assert embedding.nearest(0)[1].tolist() == [0] * 5


def test_queries_without_sense_are_refused(numpy64):
    embedding = Embedding(4, 3, backend=numpy64)
    with pytest.raises(ConfigError, match="k: expected an integer >= 1, got 0"):
        embedding.nearest(1, k=0)
    for token in (-1, 4):
        with pytest.raises(TokenError, match=f"query: expected a token id with 0 <= id < 4, got {token}"):
            embedding.nearest(token)
    for query in (np.ones(4), np.ones((1, 3)), 0.5):
        with pytest.raises(ShapeError, match=r"query: expected a token id or a vector \(C,\) = \(3,\), got \("):
            embedding.nearest(query)
