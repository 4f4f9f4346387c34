"""The embedding layer, which owns the table of token vectors."""

from __future__ import annotations

import math
import os
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from npformer.backend import Backend
from npformer.data.coverage import Coverage
from npformer.data.pretrained import pretrained_width, read_pretrained
from npformer.data.vocabulary import Vocabulary
from npformer.errors import ConfigError, ShapeError, TokenError, whole_number
from npformer.layers.cache_stack import CacheStack
from npformer.layers.initializers import Seed, scaled_normal, scaled_uniform
from npformer.layers.layer import Layer
from npformer.layers.parameter import Parameter
from npformer.typing import Array, HostArray

_INITIALIZERS = {"normal": scaled_normal, "uniform": scaled_uniform}


class Embedding(Layer):
    """Token ids (...) to vectors (..., C), scaled by √C unless scale is False. Starts with standard deviation std/√C.

    init is the distribution from which the table is drawn; std is the deviation of its entries times √C. Load
    pretrained vectors with ``from_pretrained``, or with ``load_pretrained`` into the table of a model. They are trained
    further, unless you freeze them: model.arena.configure("embedding", trainable=False).
    """

    static = True

    def __init__(
        self, vocab_size: int, d_model: int, *, scale: bool = True, init: Literal["normal", "uniform"] = "normal",
        std: float = 1.0, backend: Backend, seed: Seed = 0,
    ) -> None:  # fmt: skip
        super().__init__(backend)
        if init not in _INITIALIZERS:
            raise ConfigError(f"init: expected one of {', '.join(_INITIALIZERS)}, got {init!r}")
        self.weight = Parameter("weight", backend.array(_INITIALIZERS[init](seed, vocab_size, d_model, std)))
        self.scale = math.sqrt(d_model) if scale else 1.0

    @classmethod
    def from_pretrained(
        cls, path: str | os.PathLike[str], vocabulary: Vocabulary, *, d_model: int | None = None,
        scale: bool = False, backend: Backend, seed: Seed = 0,
    ) -> tuple[Self, Coverage]:  # fmt: skip
        """An embedding for vocabulary with the vectors of a file (see ``load_pretrained``), and the file's coverage.

        d_model is the width that the file must have; None: any. The vectors are not scaled by √C: they keep
        the size to which they were trained.
        """
        width = pretrained_width(path) if d_model is None else d_model
        embedding = cls(len(vocabulary), width, scale=scale, backend=backend, seed=seed)
        return embedding, embedding.load_pretrained(path, vocabulary)

    def load_pretrained(self, path: str | os.PathLike[str], vocabulary: Vocabulary) -> Coverage:
        """Replace rows by vectors from a text file of word2vec, GloVe or fastText. Returns the file's coverage.

        Pieces that are not in the file keep their rows. Raises DataError, with the line, if
        vectors are not (C,) or the file is broken; the table is then unchanged.
        """
        table: npt.NDArray[Any] = np.array(self.backend.host(self.weight.data))
        if len(vocabulary) != len(table):
            raise ShapeError(
                f"vocabulary: expected V={len(table)} pieces, one for each row, got {len(vocabulary)}; "
                "make the embedding with vocab_size=len(vocabulary)"
            )
        coverage = read_pretrained(path, vocabulary, table)
        self.weight.data[...] = self.backend.array(table)
        return coverage

    def forward(self, tokens: Array) -> tuple[Array, CacheStack]:
        """tokens (...), integers in [0, V), to y (..., C)."""
        return self.kept(self.ops.embedding.forward(tokens, self.weight.data, self.scale))

    def backward(self, dy: Array, cache: CacheStack) -> None:
        """Adds to the table's gradient; token ids have none."""
        self.ops.embedding.backward(dy, cache.pop(), into=(self.weight.grad,))

    def nearest(self, query: int | Array, k: int = 10) -> tuple[HostArray, HostArray]:
        """The k tokens whose vectors have the largest cosine similarity to query, a token id or a vector (C,).

        Returns ids (k,) and cosine similarities (k,), both on the host, the most similar first, ties by id;
        fewer if there are fewer. A token is not its own neighbour; a vector of zeros has similarity 0 to all.
        """
        whole_number("k", k, at_least=1)
        table: npt.NDArray[Any] = self.backend.host(self.weight.data)
        vector, itself = self._vector(query, table)
        smallest = np.finfo(table.dtype).tiny  # instead of a norm of 0, to avoid division by 0
        unit = vector / np.maximum(np.linalg.norm(vector), smallest)
        similarities = (table @ unit) / np.maximum(np.linalg.norm(table, axis=1), smallest)
        ids = np.argsort(-similarities, kind="stable")
        ids = ids[ids != itself][:k]
        return ids, similarities[ids]

    def _vector(self, query: Any, table: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int]:
        """query as a vector (C,), and its token id (−1 if it is a vector)."""
        vector = self.backend.host(query) if self.backend.device.owns(query) else np.asarray(query)
        if vector.ndim == 0 and vector.dtype.kind in "iu":
            token = int(vector)
            if not 0 <= token < len(table):
                raise TokenError(f"query: expected a token id with 0 <= id < {len(table)}, got {token}")
            return table[token], token
        if vector.shape != table.shape[1:]:
            raise ShapeError(f"query: expected a token id or a vector (C,) = {table.shape[1:]}, got {vector.shape}")
        return vector, -1
