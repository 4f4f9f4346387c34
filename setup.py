"""What setup.cfg cannot hold: the README as a package index shows it, its links and pictures absolute.

Where they lead is one setting, ``repository`` in section [release] of setup.cfg. While it is empty they stay relative,
and .ci/publishable.py refuses a release.
"""

import re
import runpy
from configparser import ConfigParser
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
RELATIVE = r"(?![a-z]+:|#)"
LINK = re.compile(rf"\]\({RELATIVE}([^)\s]+)\)")
PICTURE = re.compile(rf'\b(src|srcset)="{RELATIVE}([^"\s]+)"')


def for_index(readme: str, repository: str, tag: str) -> str:
    """The README with absolute links to the files that tag names in the repository, an https address."""

    def link(found: re.Match[str]) -> str:
        kind = "tree" if (ROOT / found[1]).is_dir() else "blob"
        return f"]({repository}/{kind}/{tag}/{found[1]})"

    parts = FENCED.split(readme)
    for i, part in enumerate(parts[::2]):
        parts[2 * i] = PICTURE.sub(rf'\1="{repository}/raw/{tag}/\2"', LINK.sub(link, part))
    return "".join(parts)


def metadata() -> dict[str, object]:
    """The long description and, once the repository is known, its addresses."""
    settings = ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    repository = settings.get("release", "repository").rstrip("/")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    if not repository:
        return {"long_description": readme}
    tag = "v" + runpy.run_path(str(ROOT / "npformer" / "_version.py"))["__version__"]
    return {
        "long_description": for_index(readme, repository, tag),
        "project_urls": {
            "Source": repository,
            "Issues": f"{repository}/issues",
            "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
            "Documentation": f"{repository}/tree/{tag}/docs",
        },
    }


if __name__ == "__main__":
    setup(**metadata())
