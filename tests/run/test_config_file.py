"""Options come back from a file as they went in, and no wrong name or type passes silently."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Optional

import numpy as np
import pytest

from npformer.errors import ConfigError
from npformer.run.config_file import parse_assignment, read_toml, write_toml


@dataclass(frozen=True)
class Model:
    d_model: int = 64
    dropout: float = 0.1
    norm_order: Literal["post", "pre"] = "post"
    final_norm: bool | None = None
    tie_embeddings: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Training:
    steps: int
    lr: float = 1e-4
    clip_norm: float | None = 1.0
    note: str = ""
    title: Optional[str] = "run"  # noqa: UP045  the old spelling is an annotation as well


SECTIONS = {"model": Model, "training": Training}


def read(tmp_path, text):
    path = tmp_path / "config.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_toml(path, SECTIONS)


def back(tmp_path, model, training):
    values = read(tmp_path, write_toml({"model": model, "training": training}))
    return Model(**values["model"]), Training(**values["training"])


def test_a_file_is_read(tmp_path):
    text = '\ufeff[model]\r\nd_model = 8\r\ndropout = 0\r\nfinal_norm = "none"\r\n[training]\nlr = 1\n'
    values = read(tmp_path, text)
    assert values == {
        "model": {"d_model": 8, "dropout": 0.0, "final_norm": None},
        "training": {"lr": 1.0},
    }
    assert type(values["model"]["dropout"]) is float
    assert read(tmp_path, "") == {"model": {}, "training": {}}


def test_what_is_written_is_plain_to_read():
    text = write_toml({"model": Model(), "training": Training(5, clip_norm=None, note='b"')})
    assert text.startswith('[model]\nd_model = 64\ndropout = 0.1\nnorm_order = "post"\n# final_norm = "none"\n')
    assert 'clip_norm = "none"\n' in text
    assert 'note = "b\\""\n' in text
    assert "\n\n[training]\nsteps = 5\nlr = 0.0001\n" in text


def test_meanings_stand_behind_the_options_and_are_read_over(tmp_path):
    @dataclass(frozen=True)
    class Told:
        width: Annotated[int, "how wide"] = 1
        bound: Annotated[float | None, "none: no bound"] = None
        most: Annotated[int | None, "none: all"] = 7
        note: str = "# no comment"

    text = write_toml({"told": Told(most=None)})
    assert [line.partition("  # ") for line in text.splitlines()] == [
        ("[told]", "", ""),
        ("width = 1                       ", "  # ", "how wide"),
        ('# bound = "none"                ', "  # ", "none: no bound"),
        ('most = "none"                   ', "  # ", "none: all"),
        ('note = "# no comment"', "", ""),
    ]
    (tmp_path / "told.toml").write_text(text)
    assert Told(**read_toml(tmp_path / "told.toml", {"told": Told})["told"]) == Told(most=None)
    (tmp_path / "told.toml").write_text(text.replace('# bound = "none"', "bound = 2.5"))
    assert read_toml(tmp_path / "told.toml", {"told": Told})["told"]["bound"] == 2.5
    (tmp_path / "told.toml").write_text(text.replace("width = 1", "widht = 1"))
    with pytest.raises(ConfigError, match=r"told\.toml: option 'told\.widht' is unknown; did you mean 'told\.width'"):
        read_toml(tmp_path / "told.toml", {"told": Told})


def test_odd_values_come_back(tmp_path):
    model, training = back(tmp_path, Model(dropout=math.nan), Training(1, lr=np.float64(0.1), clip_norm=2))
    assert math.isnan(model.dropout)
    assert (training.lr, training.clip_norm) == (0.1, 2.0)
    text = "\n\r\t\"'\\\x00\x1f\x7f\x85\u2028é😀#=a]"
    for number in (-0.0, math.inf, 1e16, 1e-7, 5e-324, 1.7976931348623157e308, 1 / 3):
        written = Model(d_model=-(2**70), dropout=number), Training(1, note=text, title=None)
        assert repr(back(tmp_path, *written)) == repr(written)  # tells 0.0 from -0.0


def test_what_would_not_come_back_is_not_written():
    with pytest.raises(ConfigError, match=r"training\.note: expected text that UTF-8 can hold"):
        write_toml({"training": Training(1, note="\ud800")})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\nd_modle = 8", "option 'model.d_modle' is unknown; did you mean 'model.d_model'?"),
        ("\n[trianing]\nsteps = 1", "section 'trianing' is unknown; did you mean 'training'?"),
        ("[model]\nsteps = 8", "option 'model.steps' is unknown. Expected one of: model.d_model, "),
        ("zzz = 8", "section 'zzz' is unknown. Expected one of: model, training"),
        ("model = 8", "expected a section [model], got 8"),
        ("[[model]]\nseed = 8", "expected a section [model], got [{'seed': 8}]"),
        ("[model]\nseed = 1\n\n[training]\nsteps = 'x'", "training.steps: expected a whole number, got 'x'"),
        ("training.steps = 1.0", "training.steps: expected a whole number, got 1.0"),
        ("[model]\nd_model = true", "model.d_model: expected a whole number, got True"),
        ("[model]\ndropout = true", "model.dropout: expected a number, got True"),
        ("[model]\ntie_embeddings = 1", "model.tie_embeddings: expected true or false, got 1"),
        ("[model]\nfinal_norm = 'x'", "model.final_norm: expected true or false or \"none\", got 'x'"),
        ("[model]\nnorm_order = 'Post'", "model.norm_order: expected one of 'post', 'pre', got 'Post'"),
        ("[training]\nlr = [1, 2]", "training.lr: expected a number, got [1, 2]"),
        ("[training]\nnote = 2020-01-01", "training.note: expected a text, got datetime.date"),
        (f"[training]\nlr = 1{'0' * 400}", "training.lr: expected a number, got 1000"),
        ("[model]\nd_model = \nseed = 1", "expected TOML, found something else"),
        ("[model]\nseed = 1\nseed = 2", "expected TOML, found something else: Cannot overwrite a value"),
        (b"[model]\n# \xff\n", "expected UTF-8, got: 'utf-8' codec can't decode byte 0xff"),
        (f"[model]\nseed = {'[' * 5000}", "expected TOML, found something else"),
        (f"[model]\nseed = {'9' * 5000}", "expected TOML, found something else"),
        (f"[model]\nseed = 0x{'f' * 5000}", "model.seed: expected a whole number, got a whole number of too"),
        (f"[model]\nseed = {2**128}", "model.seed: expected a whole number, got 34028236"),
        (f"[model]\n{'x' * 5000} = 1", f"option 'model.{'x' * 73}… (5,008 characters) is unknown"),
        ("#" * (1 << 18) + "\n", "expected an options file of at most 262,144 bytes, found more"),
    ],
)
def test_wrong_files_are_explained(tmp_path, text, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "config.toml"))


def test_missing_and_unreadable_files(tmp_path):
    with pytest.raises(ConfigError, match=r"absent: expected an options file, found nothing"):
        read_toml(tmp_path / "absent", SECTIONS)
    with pytest.raises(ConfigError, match="expected an options file to read, got: Is a directory"):
        read_toml(tmp_path, SECTIONS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("training.steps=500", ("training", "steps", 500)),
        (" d_model = 8 ", ("model", "d_model", 8)),
        ("lr=1", ("training", "lr", 1.0)),
        ("lr=inf", ("training", "lr", math.inf)),
        ("clip_norm=none", ("training", "clip_norm", None)),
        ("final_norm=true", ("model", "final_norm", True)),
        ("tie_embeddings=false", ("model", "tie_embeddings", False)),
        ("norm_order=pre", ("model", "norm_order", "pre")),
        ("note= a=b ", ("training", "note", " a=b ")),
        ("note=none", ("training", "note", "none")),
        ("title=none", ("training", "title", None)),
        ("model.seed=3", ("model", "seed", 3)),
    ],
)
def test_assignments(text, expected):
    got = parse_assignment(text, SECTIONS)
    assert got == expected
    assert type(got[2]) is type(expected[2])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps", "'steps': expected SECTION.KEY=VALUE, such as model.d_model=…"),
        ("stesp=5", "option 'stesp' is unknown; did you mean 'training.steps'?"),
        ("model.steps=5", "did you mean 'training.steps'?"),
        ("norm=5", "did you mean 'training.clip_norm', 'model.norm_order' or 'model.final_norm'?"),
        ("zzz=5", "option 'zzz' is unknown. Expected one of: "),
        ("steps=5.0", "training.steps: expected a whole number, got '5.0'"),
        ("lr=none", "training.lr: expected a number, got 'none'"),
        ("tie_embeddings=1", "model.tie_embeddings: expected true or false, got '1'"),
    ],
)
def test_wrong_assignments_are_explained(text, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_assignment(text, SECTIONS)


def test_an_option_of_an_unsupported_type_is_the_programmers_error():
    @dataclass(frozen=True)
    class Odd:
        path: Path = Path()

    with pytest.raises(TypeError, match="not supported"):
        parse_assignment("path=x", {"odd": Odd})
