"""Generating text with a trained model: ``opening``, ``writing``, ``greedy_search``, ``sampling``, ``beam_search``.

On a CPU ``writing`` and ``beam_search`` ask for many tokens at once, where a step can be recorded
(``engine/host_decode.py``).
"""

from npformer.decoding.beam_search import Hypothesis, beam_search
from npformer.decoding.greedy_search import greedy
from npformer.decoding.sampling import sample

__all__ = ["Hypothesis", "beam_search", "greedy", "sample"]
