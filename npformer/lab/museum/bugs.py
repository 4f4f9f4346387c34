"""The museum's bugs, which are in ``bugs.toml``."""

import difflib
from pathlib import Path

from npformer.errors import ConfigError
from npformer.lab.mistake import Mistake, mistakes

#: Every bug, category by category.
BUGS = mistakes(Path(__file__).with_suffix(".toml"))


def bug(name: str) -> Mistake:
    """The bug of this id. Raises ConfigError, naming the nearest, if there is none."""
    by_id = {one.id: one for one in BUGS}
    if name in by_id:
        return by_id[name]
    near = difflib.get_close_matches(name, by_id, n=3, cutoff=0.3)
    raise ConfigError(
        f"bug: expected an id that `npformer museum` lists, got {name!r}"
        + (f"; did you mean {' or '.join(near)}?" if near else "")
    )
