"""Tasks on real data: made on first use, without a network, and kept in the user's cache folder.

    dates     dates in many languages to ISO 8601       translate   Babel
    numbers   numbers in English words to French ones   translate   num2words
    scan      commands to actions                       translate
    language  the language of a date                    classify    Babel
    tags      day, month, year, weekday in a phrase     tag         Babel
    mlm       hidden pieces of Python's manual          masked
    lm        the next character of Python's manual     causal

Babel and num2words come with the extra "data".
"""

from __future__ import annotations

from collections.abc import Callable

from npformer.data.real.dates import dates, tags
from npformer.data.real.language import ceiling, language
from npformer.data.real.manual import lm, mlm
from npformer.data.real.numbers import numbers
from npformer.data.real.scan import scan
from npformer.data.tasks import Task

__all__ = ["REAL_TASKS", "ceiling", "dates", "language", "lm", "mlm", "numbers", "scan", "tags"]

#: Name -> function that makes the task; each takes a seed and its own options.
REAL_TASKS: dict[str, Callable[..., Task]] = {
    "dates": dates,
    "numbers": numbers,
    "scan": scan,
    "language": language,
    "tags": tags,
    "mlm": mlm,
    "lm": lm,
}
