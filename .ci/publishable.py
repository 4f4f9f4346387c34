"""Whether a release can be published: python .ci/publishable.py TAG says what is missing. Exit code: 0 nothing; 1."""

import re
import runpy
import sys
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def problems(root: Path, tag: str) -> list[str]:
    """What is wrong with the release that tag (v and the version) names, and how to mend it."""

    def text(name: str) -> str:
        return (root / name).read_text(encoding="utf-8")

    settings = ConfigParser()
    settings.read_string(text("setup.cfg"))
    repository = settings.get("release", "repository").rstrip("/")
    version = runpy.run_path(str(root / "npformer" / "_version.py"))["__version__"]
    dated = re.search(rf"^## \[{re.escape(version)}\] - (\d{{4}}-\d\d-\d\d)$", text("CHANGELOG.md"), re.MULTILINE)
    cited = dict(re.findall(r'^([\w-]+): "?(.*?)"?$', text("CITATION.cff"), re.MULTILINE))
    found = []
    if not re.fullmatch(r"https://[\w.-]+/[\w./-]+", repository):
        found.append(
            "setup.cfg, section [release]: expected repository = the repository's https address, got "
            f"{repository or 'nothing'}: without it README's pictures and links lead nowhere on the package index"
        )
    elif cited.get("repository-code") != repository:
        found.append(f"CITATION.cff: expected a line repository-code: {repository}, as setup.cfg has it")
    if tag != f"v{version}":
        found.append(f"tag: expected v{version}, which npformer/_version.py has, got {tag}")
    if not dated:
        found.append(f"CHANGELOG.md: expected a heading ## [{version}] - YYYY-MM-DD, got none")
    elif cited.get("date-released") != dated[1]:
        found.append(f"CITATION.cff: expected a line date-released: {dated[1]}, as CHANGELOG.md has it")
    if cited.get("version") != version:
        found.append(f"CITATION.cff: expected version: {version}, got {cited.get('version')}")
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python .ci/publishable.py TAG, for example v0.1.0")
    found = problems(ROOT, sys.argv[1])
    sys.exit("\n".join(["not to be published:", *(f"  {line}" for line in found)]) if found else 0)
