"""Why a gradient is wrong.

``diagnosis.py`` asks. ``trial.py`` finds the functions that may be at fault. ``search.py`` tries the changes of their
source that ``edits.py`` proposes: one that makes the check right names the mistake. ``patterns.py``
reads the error itself, ``paths.py`` what of the forward it leaves out, ``signatures.py`` a backward of another form.
``elsewhere.py`` has the other points at which a change must hold. ``search._best`` keeps the first change that mends
all wrong tensors, else the one that mends most, and ``diagnosis`` chooses between that line and the pattern.
"""

from npformer.check.causes.search import SearchTarget, repairs_of

__all__ = ["SearchTarget", "repairs_of"]
