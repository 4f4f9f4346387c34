"""npformer derive: its report, its exit codes, its templates, and what docs/derive.md says of it."""

import pytest

from tests.markdown import blocks, text_of

PAGE = text_of("docs/derive.md")
FILES = dict(blocks(r"text (\S+)", PAGE))
SAID = [block.removeprefix("$ npformer ").partition("\n") for block in blocks("text", PAGE) if block.startswith("$")]
FORWARD = "x: (N, C)\nu = x * x\ny = u + x\n"


@pytest.fixture
def derive(cli, tmp_path, monkeypatch):
    """Runs the command on a derivation."""
    monkeypatch.chdir(tmp_path)

    def run(text, options=""):
        (tmp_path / "mine.txt").write_text(text, encoding="utf-8")
        return cli(f"derive mine.txt {options}")

    return run


def test_a_right_derivation(derive):
    assert derive(f"{FORWARD}du = dy\ndx = 2 * x * du + dy").fine().out == (
        "  right      du   line 4\n  right      dx   line 5\n\nall 2 compared lines are right\n"
    )


def test_a_wrong_one(derive):
    done = derive(f"{FORWARD}dx = 2 * x * dy")
    assert done.code == 1
    done.says(
        "  WRONG      dx   line 4\n\nThe first wrong line is line 4, dx.\n"
        "  x reaches the loss through y (line 3) as well: the term dy·∂y/∂x is missing in dx\n"
        "  line 4: `2 * x * dy` should be `2 * x * dy + dy`\n"
    )


def test_for_machines(derive):
    document = derive(f"{FORWARD}du = 2 * dy", "--json").document
    assert (document["ok"], document["not_derived"]) == (False, ["x"])
    assert document["first_wrong"]["line"] == 4
    assert document["lines"] == [{"number": 4, "name": "du", "verdict": "WRONG", "problem": ""}]


def test_a_template_is_written_and_never_over_a_file(cli, derive, tmp_path):
    cli("derive --template softmax").fine().says(
        "softmax.txt is written; fill it in, then: npformer derive softmax.txt"
    )
    assert "dx = ...\n" in (tmp_path / "softmax.txt").read_text(encoding="utf-8")
    done = cli("derive softmax.txt")
    assert (done.code, "not yet" in done.out) == (1, True)
    cli("derive --template softmax").refused("softmax.txt: it exists, and nothing is ever overwritten")


def test_what_is_no_derivation_is_refused(cli, derive, tmp_path):
    cli("derive").refused("derive: expected a FILE, got none")
    cli("derive nothing.txt").refused("nothing.txt: expected a readable UTF-8 text file, got: No such file")
    derive("∂L/∂x = 2x").refused("mine.txt, line 1: it is not Python", "dNAME is the derivative of the loss by NAME")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    cli("derive bytes.txt").refused("bytes.txt: expected a text file, got text in UTF-16; save it as plain text")


@pytest.mark.parametrize(("command", "told"), [(command, told) for command, _, told in SAID])
def test_the_page_tells_what_comes_out(command, told, cli, tmp_path):
    name = command.split()[-1]
    (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    assert cli(command).out == told
