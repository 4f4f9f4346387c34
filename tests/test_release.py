"""What is published: the page on the package index, and what a release is refused for."""

import re
import runpy
import shutil

import pytest

from tests.markdown import ROOT, text_of

SETUP = runpy.run_path(str(ROOT / "setup.py"))
PUBLISHABLE = runpy.run_path(str(ROOT / ".ci" / "publishable.py"))
VERSION = runpy.run_path(str(ROOT / "npformer" / "_version.py"))["__version__"]
REPOSITORY = "https://example.org/o/r"
#: What .ci/publishable.py reads, of a release that can be published.
WHOLE = {
    "setup.cfg": f"[release]\nrepository = {REPOSITORY}\n",
    "CHANGELOG.md": f"# Changelog\n\n## [{VERSION}] - 2031-02-03\n",
    "CITATION.cff": f"version: {VERSION}\nrepository-code: {REPOSITORY}\ndate-released: 2031-02-03\n",
    "npformer/_version.py": f'__version__ = "{VERSION}"\n',
}


@pytest.mark.parametrize(
    ("line", "expected"),
    {
        "a file": ("see [a](docs/gpu.md).", f"see [a]({REPOSITORY}/blob/v1/docs/gpu.md)."),
        "a part of it": ("[a](docs/gpu.md#tests)", f"[a]({REPOSITORY}/blob/v1/docs/gpu.md#tests)"),
        "a folder": ("[a](examples)", f"[a]({REPOSITORY}/tree/v1/examples)"),
        "a picture": ('<img src="docs/a.svg" width="6">', f'<img src="{REPOSITORY}/raw/v1/docs/a.svg" width="6">'),
        "one of two": ('<source srcset="docs/a.svg">', f'<source srcset="{REPOSITORY}/raw/v1/docs/a.svg">'),
        "elsewhere": ("[a](https://example.com/b)", "[a](https://example.com/b)"),
        "the page itself": ("[a](#speed)", "[a](#speed)"),
        "code": ("```python\nf[a](x)\n```", "```python\nf[a](x)\n```"),
    }.values(),
)
def test_links_of_the_index_are_absolute(line, expected):
    assert SETUP["for_index"](line, REPOSITORY, "v1") == expected


def test_the_readme_has_no_relative_link_left():
    page = SETUP["for_index"](text_of("README.md"), REPOSITORY, "v1")
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.S | re.M)
    targets = re.findall(r"\]\(([^)\s]+)\)", prose) + re.findall(r'(?:src|srcset)="([^"]+)"', prose)
    assert len(targets) > 20
    assert all(target.startswith(REPOSITORY) for target in targets), targets


def test_one_setting_makes_the_addresses(monkeypatch, tmp_path):
    for name in ("README.md", "npformer/_version.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    cfg = tmp_path / "setup.cfg"
    monkeypatch.setitem(SETUP["metadata"].__globals__, "ROOT", tmp_path)
    for setting in ("", f" {REPOSITORY}/"):
        cfg.write_text(re.sub(r"^repository =.*", f"repository ={setting}", text_of("setup.cfg"), flags=re.M), "utf-8")
        found = SETUP["metadata"]()
        if setting:
            assert set(found["project_urls"]) == {"Source", "Issues", "Changelog", "Documentation"}
            assert all(url.startswith(REPOSITORY) and "//" not in url[8:] for url in found["project_urls"].values())
            assert f"({REPOSITORY}/blob/v{VERSION}/LICENSE)" in found["long_description"]
        else:
            assert found == {"long_description": text_of("README.md")}


@pytest.fixture
def release(tmp_path):
    """release(file, pattern, text): the problems of a release that is whole, but for this."""

    def problems(wrong="", pattern="", text="", tag=f"v{VERSION}"):
        for name, whole in WHOLE.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            changed, count = re.subn(pattern, text, whole, flags=re.M) if name == wrong else (whole, 1)
            assert count == 1, (name, pattern)
            (tmp_path / name).write_text(changed, encoding="utf-8")
        return PUBLISHABLE["problems"](tmp_path, tag)

    return problems


@pytest.mark.parametrize(
    ("wrong", "told"),
    {
        "no repository": (
            ("setup.cfg", "^repository =.*", "repository ="),
            "setup.cfg, section [release]: expected repository = the repository's https address, got nothing",
        ),
        "no https": (("setup.cfg", "^repository =.*", "repository = git@example.org:o/r"), "got git@example.org:o/r"),
        "another one is cited": (
            ("CITATION.cff", "^repository-code:.*", "repository-code: https://example.org/o/other"),
            f"CITATION.cff: expected a line repository-code: {REPOSITORY}",
        ),
        "no date": (("CHANGELOG.md", "^## .*", "## [Unreleased]"), f"expected a heading ## [{VERSION}] - YYYY-MM-DD"),
        "another day is cited": (
            ("CITATION.cff", "^date-released:.*", "date-released: 2031-02-04"),
            "CITATION.cff: expected a line date-released: 2031-02-03",
        ),
        "another version is cited": (
            ("CITATION.cff", "^version:.*", "version: 9.9"),
            f"CITATION.cff: expected version: {VERSION}, got 9.9",
        ),
    }.values(),
)
def test_a_release_is_refused(wrong, told, release):
    (found,) = release(*wrong)
    assert told in found
    assert release() == [], "whole"


def test_nothing_else_keeps_this_tree_from_being_published():
    """The repository's address and the day are decided with the release; all the rest is right at any time."""
    open_ones = ("setup.cfg, section [release]", "CHANGELOG.md: expected a heading", "CITATION.cff: expected a line")
    assert [x for x in PUBLISHABLE["problems"](ROOT, f"v{VERSION}") if not x.startswith(open_ones)] == []


def test_every_folder_with_code_is_a_package():
    """What is none is not in the wheel, and the repository's own folder hides that."""
    folders = {path.parent for path in (ROOT / "npformer").rglob("*.py")}
    assert [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()] == []
