"""The sources of the site: nothing that there is has no page, and no formula is missing."""

import re

import pytest

from npformer.functional import OPERATIONS
from npformer.lab.grader import EXERCISES
from npformer.lab.grader.exercises import BY_NAME
from npformer.lab.lessons import LESSONS
from npformer.lab.museum.bugs import BUGS
from tests.test_public_names import PACKAGES

pytest.importorskip("docutils", reason="the extra docs brings docutils")
from docs.site import api, course, experiments, links, museum, operations, places, sources, traces
from docs.site.formulas import FORMULAS


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory, monkeypatch):
    """Pages are written into a folder of the tests, and the pages in their frames stay empty."""
    monkeypatch.setattr(places, "SOURCES", tmp_path_factory.getbasetemp() / "site-sources")
    monkeypatch.setattr(traces, "html_of", lambda recording: "")


REPOSITORY = sorted(places.PAGES)


def test_every_operation_has_its_formula_and_its_page():
    assert list(FORMULAS) == list(OPERATIONS)
    shown = [row.name for name in places.FILES for row in operations.operations(name)]
    assert sorted(shown) == sorted(OPERATIONS)


@pytest.mark.parametrize("name", places.FILES)
def test_a_page_has_title_derivation_and_code(name):
    text = operations.page(name)
    assert 3 < len(operations.title(name)) < 70
    assert operations.lead(name)[:1].isupper()
    for row in operations.operations(name):
        assert all(line in text for side in FORMULAS[row.name] for line in side)
        assert f"def {row.forward.__name__}(" in text
        assert f"def {row.backward.__name__}(" in text
        assert f"npformer gradcheck --only {row.name}\n" in text
        assert f'<iframe class="trace" src="../traces/{row.name}.html"' in text
    assert text.count("```") % 2 == 0
    assert all(f"](../museum/{bug.id}.md)" in text for bug in operations.bugs_of(name))


def test_bugs_and_exercises_are_on_the_pages_of_their_operations():
    listed = {bug.id for name in places.FILES for bug in operations.bugs_of(name)}
    assert listed == {bug.id for bug in BUGS if any("npformer.functional." in edit.where for edit in bug.edits)}
    asked = {exercise.name for name in places.FILES for exercise in operations.exercises(name)}
    assert asked == {exercise.name for exercise in EXERCISES if "npformer.functional." in exercise.docs}


@pytest.mark.parametrize("category", sorted({bug.category for bug in BUGS}))
def test_a_bug_has_its_page(category):
    """The first of each category; whoever builds the site makes all pages."""
    bug = next(bug for bug in BUGS if bug.category == category)
    text = museum.page(bug)
    assert f"npformer museum show {bug.id}\n" in text


def test_every_bug_has_its_change_and_its_card():
    cards = "".join(museum.room(*room) for room in museum.rooms())
    for bug in BUGS:
        assert re.search(r"^[-+] ", museum.change(bug), re.M), bug.id
        assert cards.count(f'href="{bug.id}.html"') == 1


def test_the_course_is_in_order():
    pages = re.findall(r"^(\w+)$", course.index().partition(":hidden:")[2], re.M)
    assert pages == [exercise.name for exercise in EXERCISES]
    for number, each in enumerate(EXERCISES, 1):
        assert course.page(each).startswith(f"# {number}. {each.title}\n")
        assert f"npformer grade --template {each.name}" in course.page(each)


@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_an_experiment_has_question_and_answer(name):
    text = experiments.page(name)
    assert experiments.asked(name)
    assert experiments.came_out(name) in text
    assert len(experiments.came_out(name)) > 60 or "No result of the full setting is committed" in text
    is_kept = f"experiment-{name.replace('_', '-')}.json" in experiments._kept()
    assert bool(experiments.picture(name)) == is_kept, "a table and its picture are made by one command"


def test_no_package_is_left_out():
    assert set(api.packages()) - {api.ERRORS} == set(PACKAGES) - api.INTERNAL


@pytest.mark.parametrize("path", REPOSITORY)
def test_a_page_of_the_repository_keeps_its_text(path):
    """Links and pictures are written in another way, and nothing else."""
    before = (places.ROOT / path).read_text(encoding="utf-8")
    after = links.for_site(before, path)
    words = [
        re.sub(r"\[(?=`npformer)|\]\([^)\s]+\)|<picture>.*?</picture>|<img .*?>|```{image}.*?```", "", text, flags=re.S)
        for text in (before, after)
    ]
    named = re.sub(r"^```{code-block} (\w+)\n:caption: (\S+)\n$", r"```\1 \2", words[1], flags=re.M)
    assert named.split() == words[0].split()


def test_links_lead_to_pages():
    assert links.link("../npformer/functional/linear.py", "docs") == "/operations/linear.md"
    assert links.link("docs/gpu.md#tests", "") == "/gpu.md#tests"
    assert links.link("../npformer/layers/linear.py", "docs") == "/files/npformer/layers/linear.py.md"
    assert links.link("../tests/interop/", "docs") == "/files/tests/interop/index.md"
    assert links.link("#below", "docs") == "#below"
    assert links.link("https://arxiv.org/a", "docs") == "https://arxiv.org/a"


@pytest.mark.parametrize(
    ("command", "page"),
    [
        ("explain softmax --forward", "/operations/softmax.md"),
        ("explain transformer --at 'generator.bias[3]'", ""),
        ("museum show\nlinear-bias-mean", "/museum/linear-bias-mean.md"),
        ("museum mutants", "/museum/index.md"),
        ("grade --template layer_norm", "/course/layer_norm.md"),
        ("grade softmax.py", "/course/softmax.md"),
        ("grade --list", "/course/index.md"),
    ],
)
def test_a_command_leads_to_the_page_of_what_it_shows(command, page):
    text = f"Try `npformer {command}`, then go on."
    assert links.for_site(text, "docs/lessons.md") == (
        f"Try [`npformer {command}`]({page}), then go on." if page else text
    )
    assert links.for_site(f"```sh\nnpformer {command}\n```", "docs/lessons.md").count("](") == 0


def test_lessons_bugs_and_exercises_lead_to_each_other():
    lessons = links.for_site((places.ROOT / "docs/lessons.md").read_text(encoding="utf-8"), "docs/lessons.md")
    for one in LESSONS:
        assert f"](/museum/{one.bug}.md)" in lessons
        back = f"[Lesson {one.number}. {one.title}](/lessons.md#{one.number}-{one.title.lower().replace(' ', '-')})"
        assert back in museum.page(next(bug for bug in BUGS if bug.id == one.bug))
        for name in one.exercises:
            assert one.file or f"](/course/{name}.md)" in lessons
            assert back in course.page(BY_NAME[name])
    assert "(/lessons.md" not in course.page(BY_NAME["relu"])


def test_a_file_that_a_page_names_has_a_page(monkeypatch):
    path, test = "tests/functional/test_linear.py", "test_values_and_gradients_are_the_sums_of_the_docstring"
    monkeypatch.setattr(places, "written", set())
    places.write("a.md", f"`{path}::{test}`, [all](/files/tests/interop/index.md), `docs/gpu.md`")
    sources.write_all()
    written = {page.relative_to(places.SOURCES).as_posix() for page in places.written}
    assert written - {"a.md"} == {f"files/{path}.md", "files/tests/interop/index.md"}
    lines = (places.ROOT / path).read_text(encoding="utf-8").splitlines()
    assert lines[sources.line_of(path, test) - 1].startswith(f"def {test}(")


def test_a_command_leads_to_the_page_of_what_it_names():
    pages = {
        "npformer museum show relu-no-gate": "museum/relu-no-gate",
        "npformer grade --template layer_norm": "course/layer_norm",
        "npformer grade encoder_layer_pre.py": "course/encoder_layer_pre",
        "npformer explain softmax --forward": "operations/softmax",
        "npformer gradcheck --only sinusoidal_positions": "operations/positions",
        "npformer museum show NAME": None,
        "npformer grade --list": None,
        "npformer explain adam": None,
        "explain softmax": None,
    }
    assert {command: sources.page_of_command(command) for command in pages} == pages
