"""The table of NumPy's own bodies."""

from __future__ import annotations

from npformer import functional as F  # noqa: N812
from npformer.backend.backend import AdamUpdate
from npformer.backend.numpy.embedding import embedding_backward
from npformer.backend.numpy.philox import philox_bits
from npformer.backend.ops import PLAIN, Ops, plain_pair, with_bits
from dataclasses import replace

adam_update: AdamUpdate | None = None
BODIES: Ops = replace(with_bits(PLAIN, philox_bits), embedding=plain_pair(F.embedding_forward, embedding_backward))
