"""Recordings of one forward and one backward: every call, every line, every number, and the first wrong part."""

from npformer.see.record.bisect import Bisection, bisect
from npformer.see.record.trace import Trace, trace

__all__ = ["Bisection", "Trace", "bisect", "trace"]
