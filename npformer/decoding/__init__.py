"""From a trained model to output: greedy decoding."""

from npformer.decoding.greedy_search import greedy

__all__ = ["greedy"]
