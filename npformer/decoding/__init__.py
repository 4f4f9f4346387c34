"""Generating text with a trained model: ``opening``, ``writing``, ``greedy_search``, ``sampling``, ``beam_search``."""

from npformer.decoding.beam_search import Hypothesis, beam_search
from npformer.decoding.greedy_search import greedy
from npformer.decoding.sampling import sample

__all__ = ["Hypothesis", "beam_search", "greedy", "sample"]
