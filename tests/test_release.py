"""What is published: the page on the package index, the metadata, what a release is refused for; forms of issues."""

import re
import runpy
import shlex
import shutil
from configparser import ConfigParser

import pytest

from npformer.cli.main import build_parser
from tests.markdown import ROOT, text_of

SETUP = runpy.run_path(str(ROOT / "setup.py"))
PUBLISHABLE = runpy.run_path(str(ROOT / ".ci" / "publishable.py"))
VERSION = runpy.run_path(str(ROOT / "npformer" / "_version.py"))["__version__"]
REPOSITORY = "https://example.org/o/r"
RELEASE = text_of(".github/workflows/release.yml")
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
#: What .ci/publishable.py reads, of a release that can be published.
WHOLE = {
    "setup.cfg": f"[release]\nrepository = {REPOSITORY}\n",
    "CHANGELOG.md": f"# Changelog\n\n## [{VERSION}] - 2031-02-03\n",
    "CITATION.cff": f"version: {VERSION}\nrepository-code: {REPOSITORY}\ndate-released: 2031-02-03\n",
    "npformer/_version.py": f'__version__ = "{VERSION}"\n',
}


def settings():
    parser = ConfigParser()
    parser.read_string(text_of("setup.cfg"))
    return parser


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


def test_a_whole_release_is_publishable(release):
    assert release() == []


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


def test_a_tag_of_another_version_is_refused(release):
    assert release(tag="v9.9") == [f"tag: expected v{VERSION}, which npformer/_version.py has, got v9.9"]


def test_nothing_else_keeps_this_tree_from_being_published():
    """The repository's address and the day are decided with the release; all the rest is right at any time."""
    open_ones = ("setup.cfg, section [release]", "CHANGELOG.md: expected a heading", "CITATION.cff: expected a line")
    assert [x for x in PUBLISHABLE["problems"](ROOT, f"v{VERSION}") if not x.startswith(open_ones)] == []


def test_nothing_is_published_unchecked():
    steps = re.findall(r"run: (.*)", RELEASE)
    assert steps[0] == 'python .ci/publishable.py "$GITHUB_REF_NAME"'
    assert ".ci/package dist" in steps
    jobs = dict(re.findall(r"^  (\w+):\n(.*?)(?=^  \w+:\n|\Z)", RELEASE.partition("\njobs:\n")[2], re.S | re.M))
    assert {name: re.findall(r"needs: (\w+)", job) for name, job in jobs.items()} == {
        "build": [], "test": ["build"], "publish": ["test"],
    }  # fmt: skip
    assert [name for name, job in jobs.items() if "id-token: write" in job] == ["publish"]
    assert not re.search(r"secrets\.|password:|api-token:", RELEASE), "trusted publishing needs none"


def test_the_pythons_that_are_named_are_those_that_are_tested():
    named = re.findall(r"Programming Language :: Python :: (3\.\d+)$", settings()["metadata"]["classifiers"], re.M)
    tested = re.findall(r'"([\d.]+)"', re.search(r"python: \[(.*)\]", RELEASE)[1])
    assert named == tested
    assert settings()["options"]["python_requires"] == f">={named[0]}"


def test_the_licence_is_an_expression():
    metadata = settings()["metadata"]
    assert (metadata["license_expression"], metadata["license_files"]) == ("MIT", "LICENSE")
    assert "License ::" not in metadata["classifiers"], "the expression has replaced them"
    assert text_of("LICENSE").startswith("MIT License")


def test_no_address_is_invented():
    """Addresses of people and of the repository stand nowhere before they exist; then they come from the setting."""
    repository = settings()["release"]["repository"]
    for page in ("setup.cfg", "CITATION.cff", "SECURITY.md", *(str(form.relative_to(ROOT)) for form in FORMS)):
        urls = re.findall(r"https?://\S+", text_of(page))
        assert not re.search(r"\w@\w", text_of(page)), page
        assert all(repository and url.startswith(repository) for url in urls), (page, urls)


@pytest.mark.parametrize(
    "form", [form for form in FORMS if form.name in ("bug.yml", "gradient.yml")], ids=lambda form: form.name
)
def test_a_form_asks_for_what_the_doctor_says(form):
    (asked,) = [part for part in form.read_text(encoding="utf-8").split("  - type: ") if "id: doctor" in part]
    command = re.search(r"label: npformer (.*)", asked)[1]
    assert "required: true" in asked
    assert build_parser().parse_args(shlex.split(command)).json


def test_the_changelog_has_the_usual_sections():
    heads = re.findall(r"^##+ (.*)$", text_of("CHANGELOG.md"), re.M)
    versions = [head for head in heads if head.startswith("[")]
    dated = r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d"
    assert all(head == "[Unreleased]" or re.fullmatch(dated, head) for head in versions), versions
    usual = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    parts = [head for head in heads if head not in versions]
    assert versions
    assert parts
    assert set(parts) <= set(usual)
    for section in re.split(r"^## ", text_of("CHANGELOG.md"), flags=re.M)[1:]:
        order = [usual.index(part) for part in re.findall(r"^### (\w+)$", section, re.M)]
        assert order == sorted(set(order)), section.splitlines()[0]


def test_every_folder_with_code_is_a_package():
    """What is none is not in the wheel, and the repository's own folder hides that."""
    folders = {path.parent for path in (ROOT / "npformer").rglob("*.py")}
    assert [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()] == []
