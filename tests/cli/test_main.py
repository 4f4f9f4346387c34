"""The command line as a whole: help, version, unknown words, and an exit code for every way to end."""

import re
import subprocess
import sys
from unittest.mock import Mock

import pytest

from npformer import __version__
from npformer.__main__ import main as begin
from npformer.cli import doctor
from npformer.cli.decode import BATCH_SIZE
from npformer.cli.main import COMMANDS, FIRST, MORE, MORE_TITLE, name_of
from npformer.errors import Interrupted, NpformerError

NAMES = [*map(name_of, COMMANDS)]


PARTS = ("show", "mutants")  # of the museum
#: A command's required arguments, to be followed by an unknown flag.
REQUIRED = {
    "judge": "thing --against thing", "train": "copy", "decode": "thing", "report": "thing", "trace": "softmax",
    "tolerance": "mine.py",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_help_of_every_command_shows_an_example_and_json(name, cli):
    done = cli(f"{name} --help").quiet()
    assert re.search(rf"^examples?:\n(.*\n)*.*npformer {name}", done.out, re.M)
    assert "--json" in done.out
    assert re.search(r"^usage: npformer " + name, done.out)


def test_help_and_version(cli):
    assert cli("--version").fine().out == f"npformer {__version__}\n"
    done = cli("--help").fine()
    done.says("\n  npformer train reverse  ", "--color {auto,always,never}")
    groups = [re.findall(r"^    (\w+) ", part, re.M) for part in done.out.split(f"\n{MORE_TITLE}:\n")]
    assert groups == [[*map(name_of, FIRST)], [*map(name_of, MORE)]]


def test_no_command_shows_the_help_and_is_exit_2(cli):
    """So a script whose command is an empty variable does not go on as if something were done."""
    done = cli()
    done.refused("usage: npformer", "npformer: expected a command, got none\n", *NAMES)
    assert done.err.startswith(cli("--help").out)


def test_an_unknown_command_names_the_nearest(cli):
    cli("trian").refused(f"expected one of {', '.join(NAMES)}, got 'trian'; did you mean train?")
    cli("xyzzy").refused("got 'xyzzy'\n")
    cli("train revers").refused("got 'revers'; did you mean reverse?")
    cli("museum shw").refused("expected one of show, mutants, got 'shw'; did you mean show?")
    cli("train copy --device numpi").refused("--device: expected one of auto, numpy, cupy, got 'numpi'; did you")
    cli("--zzzzz").refused("unknown argument '--zzzzz'; the options are --help, --version, --color")
    cli("train reverse --set steps 10").refused("'10': a word too many; try --set KEY=VALUE")
    cli("--colr").refused("unknown argument '--colr'; did you mean --color?")


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_the_museum_has_its_own_help(part, cli):
    done = cli(f"museum {part} --help").quiet()
    assert done.out.startswith(f"usage: npformer museum {part} ")
    done.says(f"\nexamples:\n  npformer museum {part}", "--json")
    assert ("--picture" in done.out, "--sample" in done.out) == (part == "show", part == "mutants")


def test_help_fits_the_terminal(cli, monkeypatch):
    """All but a few commands, which are not broken, so that they can be copied; on a narrow one examples are wider."""
    monkeypatch.setenv("COLUMNS", "120")
    for command in ("", *NAMES, *(f"museum {part}" for part in PARTS)):
        lines = cli(f"{command} --help").lines
        wide = [line for line in lines if len(line) > 120 and line.strip()[:9] not in ("npformer ", "[--kernel")]
        assert wide == []


@pytest.mark.parametrize(
    ("words", "coloured"),
    [
        ("--color always doctor", True),
        ("doctor --color always", True),
        ("doctor", False),
        ("doctor --color never", False),
        ("--color always doctor --color never", False),
    ],
)
def test_colour_before_or_behind_the_command(words, coloured, cli):
    done = cli(words)
    assert ("\x1b[32mok\x1b[0m" in done.out) is coloured
    assert ("\x1b" in done.out) is coloured


@pytest.mark.parametrize("name", NAMES)
def test_unknown_flags_name_the_nearest(name, cli):
    line = f"{name} {REQUIRED.get(name, '')}"
    cli(f"{line} --jsn").refused("unknown argument '--jsn'; did you mean --json?", f"usage: npformer {name}")
    cli(f"{line} --zzzzz").refused("unknown argument '--zzzzz'; the options are --help, --json")


@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [
        (NpformerError("what was wrong"), 2, "npformer: what was wrong\n"),
        (Interrupted("stopped; saved", 15), 143, "npformer: stopped; saved\n"),
        (KeyboardInterrupt(), 130, "npformer: interrupted\n"),
        (MemoryError("Unable to allocate 43 GiB"), 1, "npformer: not enough memory: Unable to allocate 43 GiB; make"),
        (BrokenPipeError(), 141, ""),
        (OSError(28, "No space left on device"), 1, "npformer: the system refused: [Errno 28] No space left on device"),
    ],
)
def test_every_way_to_end_has_its_code(raised, code, words, cli, monkeypatch):
    def fail():
        raise raised

    monkeypatch.setattr(doctor, "examine", fail)
    done = cli("doctor")
    assert done.code == code
    assert done.err.startswith(words)
    assert bool(words) == bool(done.err)


def test_an_interrupt_while_the_command_loads(monkeypatch, capsys):
    monkeypatch.setattr("npformer.cli.main.main", Mock(side_effect=KeyboardInterrupt))
    assert (begin(), capsys.readouterr().err) == (130, "npformer: interrupted\n")


def test_a_programming_error_is_not_hidden(cli, monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli("doctor")


def test_an_output_closed_in_the_middle_ends_the_command_quietly(trained, environment):
    """As with head -n 1: the reader leaves after the first line, before the second batch can be decoded."""
    pipe, command = subprocess.PIPE, [sys.executable, "-m", "npformer", "decode", str(trained), "--max-len", "1"]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment) as child:
        child.stdin.write(b"abc\n" * BATCH_SIZE)
        child.stdin.flush()
        assert child.stdout.readline()
        child.stdout.close()
        child.stdin.write(b"abc\n")
        child.stdin.close()
        stderr = child.stderr.read()
    assert (child.returncode, stderr) == (141, b"")


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("doctor >&-", 0, ""),
        ("decode nowhere x 2>&-", 2, ""),  # the error message does not go to standard output instead
        (
            "doctor >/dev/full",
            1,
            "npformer: the system refused: [Errno 28] No space left on device; see to that, then try again\n",
        ),
    ],
)
def test_an_output_closed_before_the_command_began_and_a_full_disk(line, code, message, environment, tmp_path):
    argv = ["bash", "-c", f'"$0" -m npformer {line}', sys.executable]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", message)


def test_a_terminal_that_lacks_the_characters(shell, environment):
    shell("train --help", env=environment | {"PYTHONIOENCODING": "ascii"}).quiet().says("\\u2026")
