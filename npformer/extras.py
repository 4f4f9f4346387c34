"""How an optional part is installed: in the way in which npformer itself was installed here."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path


def install(extra: str) -> str:
    """The command that brings an extra, by pip or by uv into this environment: no index needs to have npformer.

    Of npformer's folder the extra itself; of an installed package, what its metadata requires for it.
    """
    from importlib.metadata import distributions  # here: it takes as long to load as a check

    by, here = [sys.executable, "-m", "pip", "install"], [*distributions(name="npformer")]  # a folder may have its own
    if any((each.read_text("INSTALLER") or "").strip() == "uv" for each in here):
        by = ["uv", "pip", "install", "--python", sys.executable]
    origins = [json.loads(each.read_text("direct_url.json") or "{}").get("dir_info", {}) for each in here]
    if not here or any(each.get("editable") for each in origins):
        return shlex.join([*by, "-e", f"{Path(__file__).parents[1]}[{extra}]"])
    wanted = [each for each in here[0].requires or () if re.search(rf"extra == .{extra}\b", each)]
    return shlex.join([*by, *dict.fromkeys(each.partition(";")[0] for each in wanted)])
