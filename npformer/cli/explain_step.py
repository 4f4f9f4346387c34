"""npformer explain adam, step and sizes, and of a run --step: what an update does, and how large gradients are."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from npformer.cli.common import tell
from npformer.errors import ConfigError
from npformer.io.printable import visible
from npformer.io.terminal import columns, counted, say_error
from npformer.optim import Adam
from npformer.see.explain.change import change_of
from npformer.see.explain.change_text import change_document, change_lines
from npformer.see.explain.number import find_parameter
from npformer.see.explain.sizes import sizes, sizes_text
from npformer.see.explain.step import ReplayedStep, prepare_step, replay_step
from npformer.see.explain.text import WIDEST
from npformer.see.explain.update import course_lines, number_lines
from npformer.see.record.models import PIECES, showcase_model
from npformer.training.step import TrainStep

#: The number that ``explain adam`` shows unless another is asked for, and the updates of its course.
PLACE = "decoder.layers.0.self_attention.query.weight[3,1]"
COURSE = (1, 2, 3, 4, 5, 10, 20, 40)
RATE, CLIP_NORM = 1e-2, 1.0


def _expect_alone(args: argparse.Namespace, also: str = "") -> None:
    """Raise ConfigError for options that have no meaning here."""
    names = ("html", "up", "text", "answer", "best", "forward", also)
    odd = [f"--{name}" for name in names if name and getattr(args, name)]
    if odd:
        raise ConfigError(f"{', '.join(odd)}: expected none beside adam, step, sizes or --step; leave it out")


def explain_adam(args: argparse.Namespace) -> int:
    """One number through the second update, and its course over many."""
    _expect_alone(args)
    step, batch = _showcase()
    shown = [one for one in (replay_step(step, batch) for _ in range(COURSE[-1])) if one.number in COURSE]
    name, place = _place(shown[0], args.at or PLACE)
    course, width = [one.update.at(place) for one in shown], columns(WIDEST)
    first = ("the showcase's model, trained on its one batch", *number_lines(course[1], name, width))
    document = {"format": "npformer-adam", "at": name, "updates": [update._asdict() for update in course]}
    return _show(args, [*first, "", *course_lines(course, width)], document)


def explain_step(args: argparse.Namespace) -> int:
    """The first step of the showcase's model."""
    _expect_alone(args)
    return _explain(args, replay_step(*_showcase()), "the showcase's model", PIECES)


def explain_sizes(args: argparse.Namespace) -> int:
    """How large gradients are, and what makes them vanish or explode."""
    _expect_alone(args, "at")
    found = sizes()
    return _show(args, [sizes_text(found, columns(WIDEST))], {"format": "npformer-sizes", **found._asdict()})


SUBJECTS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "adam": explain_adam, "step": explain_step, "sizes": explain_sizes,
}  # fmt: skip


def explain_step_of_run(args: argparse.Namespace) -> int:
    """A step of a run, made again."""
    _expect_alone(args)
    path = Path(args.target or "")
    if not args.target or not path.is_dir():
        raise ConfigError(f"--step: expected the folder of a run as TARGET, got {args.target or 'none'}")
    begun = prepare_step(path, args.step)
    steps = counted(begun.number - begun.begins, "step")
    say_error(f"step {begun.number} is made again: {steps} from step {begun.begins}, then its change is split")
    return _explain(args, begun.replay(), str(path), begun.pieces)


def _showcase() -> tuple[TrainStep, tuple[Any, ...]]:
    """A training step of the showcase's model, and the one batch on which it is trained."""
    model, inputs, targets, _ = showcase_model()
    return TrainStep(model, Adam(model.arena, RATE), clip_norm=CLIP_NORM), (*inputs, targets)


def _explain(args: argparse.Namespace, one: ReplayedStep, name: str, pieces: tuple[str, ...]) -> int:
    place = _place(one, args.at) if args.at else None
    change, width = change_of(one), columns(WIDEST)
    lines, document = [*change_lines(change, visible(name), pieces, width)], change_document(change, pieces)
    if place:
        number = one.update.at(place[1])
        lines += ["", *number_lines(number, place[0], width)]
        document["number"] = {"at": place[0], **number._asdict()}
    return _show(args, lines, document)


def _place(one: ReplayedStep, text: str) -> tuple[str, int]:
    """The name of a parameter's entry, and where it is in the arena. Raises ConfigError for another text."""
    places = one.by_parameter(np.arange(one.before.size))
    name, index = find_parameter({name: x.shape for name, x in places.items()}, text)
    return f"{name}[{','.join(map(str, index))}]", int(places[name][index])


def _show(args: argparse.Namespace, lines: Sequence[str], document: Mapping[str, Any]) -> int:
    if args.json:
        print(json.dumps(document))
    else:
        tell("\n".join(lines))
    return 0
