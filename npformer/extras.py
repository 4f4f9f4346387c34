"""How an optional part is installed: in the way in which npformer itself was installed here."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def install(extra: str) -> str:
    """The command that brings an extra: in the source tree, or for the package by pip, by uv or by uvx."""
    from importlib.metadata import PackageNotFoundError, distribution  # here: it takes as long to load as a check

    try:
        here = distribution("npformer")
        source = json.loads(here.read_text("direct_url.json") or "{}").get("dir_info", {}).get("editable", False)
    except PackageNotFoundError:  # Python imports it from its folder
        source = True
    if source:
        return f"in npformer's folder: pip install -e '.[{extra}]'"
    package = f"'npformer[{extra}]'"
    if (here.read_text("INSTALLER") or "").strip() != "uv":
        return f"pip install {package}"
    if "archive-v" in sys.prefix:  # uv's cache, in which uvx makes environments
        return f"uvx --from {package} npformer …"
    return f"uv tool install {package}" if "tools" in Path(sys.prefix).parts else f"uv pip install {package}"
