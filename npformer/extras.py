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
    from importlib.metadata import PackageNotFoundError, distribution  # here: it takes as long to load as a check

    by = [sys.executable, "-m", "pip", "install"]
    try:
        here = distribution("npformer")
        if (here.read_text("INSTALLER") or "").strip() == "uv":
            by = ["uv", "pip", "install", "--python", sys.executable]
        if not json.loads(here.read_text("direct_url.json") or "{}").get("dir_info", {}).get("editable"):
            wanted = [each for each in here.requires or () if re.search(rf"extra == .{extra}\b", each)]
            return shlex.join([*by, *dict.fromkeys(each.partition(";")[0] for each in wanted)])
    except PackageNotFoundError:  # Python imports it from its folder
        pass
    return shlex.join([*by, "-e", f"{Path(__file__).parents[1]}[{extra}]"])
