"""The model sizes used in benchmarks, each with the shape of its batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from npformer.models.config import TransformerConfig

#: (src, tgt_in, tgt_out), token ids (B, T) on the host.
Batch: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Preset:
    """A post-LN encoder-decoder with ReLU and sinusoidal positions, and the shape of its batches."""

    vocab_size: int  # V, of source and target
    d_model: int  # C
    num_heads: int  # H
    num_layers: int  # of the encoder, and the same number of the decoder
    d_ff: int  # F
    length: int  # T = S
    batch: int  # B

    def config(self, dropout: float = 0.1) -> TransformerConfig:
        """The model's options. Raises ConfigError unless 0 <= dropout < 1."""
        return TransformerConfig(
            src_vocab_size=self.vocab_size, tgt_vocab_size=self.vocab_size, d_model=self.d_model,
            num_heads=self.num_heads, num_encoder_layers=self.num_layers, num_decoder_layers=self.num_layers,
            d_ff=self.d_ff, max_seq_len=self.length, dropout=dropout,
        )  # fmt: skip

    def example_batch(self, seed: int = 0) -> Batch:
        """Random tokens without padding; the same seed gives the same tokens."""
        rng = np.random.default_rng(seed)
        src = rng.integers(1, self.vocab_size, (self.batch, self.length))
        tgt = rng.integers(1, self.vocab_size, (self.batch, self.length + 1))
        return src, np.ascontiguousarray(tgt[:, :-1]), np.ascontiguousarray(tgt[:, 1:])

    def __str__(self) -> str:
        return (
            f"V {self.vocab_size}, d_model {self.d_model}, heads {self.num_heads}, "
            f"layers {self.num_layers}+{self.num_layers}, d_ff {self.d_ff}, T {self.length}, batch {self.batch}"
        )


PRESETS: dict[str, Preset] = {
    "tiny": Preset(16, 64, 4, 2, 256, 12, 64),
    "small": Preset(64, 128, 4, 2, 512, 32, 64),
    "mid": Preset(1000, 256, 8, 3, 1024, 64, 32),
    "base": Preset(5000, 512, 8, 6, 2048, 100, 64),
}
