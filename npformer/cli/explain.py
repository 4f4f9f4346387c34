"""npformer explain: an operation line by line; where one number of a gradient comes from; what an update does."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from npformer.check.derivations import TEMPLATES
from npformer.check.report import RIGHT
from npformer.cli.common import finished, tell
from npformer.cli.target import TARGET, add_target, is_operation, setting_of
from npformer.errors import ConfigError
from npformer.functional import OPERATIONS
from npformer.io.output_files import OWN_PAGE, expect_place, write_file
from npformer.io.printable import visible
from npformer.io.terminal import columns, counted, fill, say_error
from npformer.layers import Layer
from npformer.optim import Adam
from npformer.see.explain import explanation, lines, session, to_dict
from npformer.see.explain.change import change_document, change_lines, change_of
from npformer.see.explain.number import GradientAddress, find, find_parameter
from npformer.see.explain.operation import OperationStory, explained_operation, forward_lines, operation_lines
from npformer.see.explain.run import BUDGET, Course, course_document, course_told
from npformer.see.explain.step import ReplayedStep, course_lines, number_lines, prepare_step, replay_step
from npformer.see.explain.text import WIDEST
from npformer.see.page import trace_page
from npformer.see.page.trace_writer import opening
from npformer.see.record.models import NAMES, PIECES, showcase_model
from npformer.see.record.trace import Trace, trace, written
from npformer.training.step import TrainStep

SUMMARY = "Explain an operation, or one number of a gradient."
EXAMPLES = """examples:
  npformer explain layer_norm                       formula, derivation, and each line with the numbers it made
  npformer explain layer_norm --forward             the forward alone, to derive the backward yourself
  npformer explain runs/reverse-001 --text bot --at 'decoder.layers.0.self_attention.query.weight[3,5]'
  npformer explain transformer --at 'encoder.layers.0.feed_forward.up.weight[1,2]'     a small model
  npformer explain transformer --at 'decoder.layers.0@output[0,2,3]'                   what a layer returned
  npformer explain transformer --at 'generator.bias[3]' --up 2       walk on towards the loss, two steps
  npformer explain mine.py --at 'norm1.gamma[2]'    what build() in mine.py returns, as for npformer gradcheck --model
  npformer explain transformer --at 'generator.bias[3]' --html page.html              and a page of all its numbers
  npformer explain adam                             one number through clipping, both moments and the update
  npformer explain step                             a step: what it promised, what it did, and by what
  npformer explain runs/reverse-001                 where the loss was lost, and why
  npformer explain runs/reverse-001 --step 213      why did this step hurt: made again, its change of the loss split
  npformer explain runs/reverse-001 --step 213 --at 'generator.bias[3]'               and one number through it
  npformer explain --list                           the operations and the small models

The sections: value (the gradient, two witnesses, gradcheck's verdict), what (in words), terms (the products that add
up to it), why (those of the largest term's gradient), paths (through each sub-layer or past it), tokens (whose loss it
comes from), means (what a step changes, predicted and measured), next. docs/explain.md explains each.

All numbers are computed in float64 with the plain kernels, without dropout where a run is explained."""
#: The number that ``explain adam`` shows unless another is asked for, and the updates of its course.
PLACE = "decoder.layers.0.self_attention.query.weight[3,1]"
COURSE = (1, 2, 3, 4, 5, 10, 20, 40)
RATE, CLIP_NORM = 1e-2, 1.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add = parser.add_argument
    add_target(parser, nargs="?")
    add("--at", metavar="NAME[INDEX]", help="the number: of a parameter, an input, or NAME@output")
    add("--up", metavar="NUMBER", action="append", default=[],
                        help="walk on to a gradient that the last step names, or this many steps")  # fmt: skip
    add("--step", metavar="N", type=int, help="of a run: make this step again, and split the change of its loss")
    add("--html", metavar="FILE.html", type=Path, help="write a page for a browser; it opens at the number")
    add("--forward", action="store_true", help="of an operation the forward alone, to derive its backward yourself")
    add("--list", action="store_true", help="list the operations and the small models")


def run(args: argparse.Namespace) -> int:
    """Exit 1 if a number is not right, or a sum does not hold."""
    if args.list:
        return _list(args)
    is_run = args.target is not None and Path(args.target).is_dir()
    alone = None if is_run else SUBJECTS.get(args.target)
    if args.step is not None:
        alone = explain_step_of_run
    elif is_run and not (args.at or args.text):
        alone = explain_run
    if alone is not None:
        _expect_alone(args)
        return alone(args)
    if args.html is not None:
        expect_place(args.html, "--html", OWN_PAGE)
    if args.target is None:
        raise ConfigError(f"TARGET: expected {TARGET}, got none")
    return _operation(args) if is_operation(args) else _number(args)


def _list(args: argparse.Namespace) -> int:
    told = {"operations": list(OPERATIONS), "models": list(NAMES), "subjects": list(SUBJECTS)}
    kinds = zip(("operations", "small models", "of training"), told.values(), strict=True)
    lines = [fill(f"{kind}: {', '.join(names)}", hanging="  ") for kind, names in kinds]
    return finished(args, told, "\n".join(lines))


def _operation(args: argparse.Namespace) -> int:
    if args.at is not None or args.up:
        raise ConfigError(
            f"--at, --up: expected a run or a model as TARGET, got the operation {args.target}; leave them out"
        )
    explained = explained_operation(args.target)
    if args.forward:
        return _forward(args, explained)
    if args.html is not None:
        _write_page(args, trace(args.target))
    text = "\n".join([*operation_lines(explained, columns(WIDEST)), *_of_page(args)])
    return finished(args, explained.to_dict(), text, explained.report.ok)


def _forward(args: argparse.Namespace, explained: OperationStory) -> int:
    if args.html is not None or args.json:
        raise ConfigError("--forward: expected no --html and no --json beside it, which tell the backward, too")
    known = args.target in TEMPLATES
    then = f"npformer derive --template {args.target} or " if known else ""
    ends = fill(f"Now derive its backward: {then}npformer grade --list.")
    tell("\n".join([*forward_lines(explained, columns(WIDEST)), "", ends]))
    return 0


def _number(args: argparse.Namespace) -> int:
    if args.forward:
        raise ConfigError(f"--forward: expected an operation as TARGET, got {args.target}; leave --forward out")
    setting = setting_of(args)
    if not isinstance(setting.target, Layer):
        raise ConfigError(
            f"{args.target}: expected a layer or a model derived from npformer.layers.Layer, "
            f"got {type(setting.target).__name__}; npformer trace and npformer gradcheck take other targets, too"
        )
    with session(setting, lines=args.html is not None) as opened:
        if args.at is None:
            raise ConfigError(_no_place(opened.checked.tensors, args.target))
        explained = explanation(opened, args.at, args.up)
        if args.html is not None:
            _write_page(args, written(opened, **setting.shown), find(opened, args.at))
    noted = [fill(visible(setting.note))] if setting.note else []
    text = "\n".join([*noted, *lines(explained, columns(WIDEST)), *_of_page(args)])
    return finished(args, to_dict(explained), text, explained.value.verdict == RIGHT)


def _write_page(args: argparse.Namespace, right: Trace, place: GradientAddress | None = None) -> None:
    """Write the page that --html asks for; it opens at the place."""
    page = trace_page(right, opens=None if place is None else opening(right, place))
    write_file(args.html, "--html", page.encode())


def _of_page(args: argparse.Namespace) -> list[str]:
    return [] if args.html is None else [f"the page is in {visible(args.html)}: open it in a browser"]


def _no_place(tensors: dict[str, Any], what: str) -> str:
    listed = "\n  ".join(f"{name} {tuple(x.shape)}" for name, x in list(tensors.items())[:40])
    more = f"\n  … {len(tensors) - 40} more" if len(tensors) > 40 else ""
    operation = get_close_matches(what, OPERATIONS, n=1, cutoff=0.8)
    meant = f"{what}: did you mean the operation {operation[0]}? Otherwise:\n  " if operation else ""
    return f"{meant}--at: expected a number of {what}, NAME[INDEX], got none; it has\n  {listed}{more}"


def _expect_alone(args: argparse.Namespace) -> None:
    """Raise ConfigError for options that have no meaning here."""
    odd = [f"--{name}" for name in ("html", "up", "text", "answer", "best", "forward") if getattr(args, name)]
    if odd:
        raise ConfigError(f"{', '.join(odd)}: expected none beside adam, step, --step or a run alone; leave it out")


def explain_adam(args: argparse.Namespace) -> int:
    """One number through the second update, and its course over many."""
    step, batch = _showcase()
    shown = [one for one in (replay_step(step, batch) for _ in range(COURSE[-1])) if one.number in COURSE]
    name, place = _place(shown[0], args.at or PLACE)
    course, width = [one.update.at(place) for one in shown], columns(WIDEST)
    first = ("the showcase's model, trained on its one batch", *number_lines(course[1], name, width))
    document = {"format": "npformer-adam", "at": name, "updates": [update._asdict() for update in course]}
    return finished(args, document, "\n".join([*first, "", *course_lines(course, width)]))


def explain_step(args: argparse.Namespace) -> int:
    """The first step of the showcase's model."""
    return _explain(args, replay_step(*_showcase()), "the showcase's model", PIECES)


SUBJECTS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "adam": explain_adam, "step": explain_step,
}  # fmt: skip


def explain_step_of_run(args: argparse.Namespace) -> int:
    """A step of a run, made again."""
    path = Path(args.target or "")
    if not args.target or not path.is_dir():
        raise ConfigError(f"--step: expected the folder of a run as TARGET, got {args.target or 'none'}")
    begun = prepare_step(path, args.step)
    steps = counted(begun.ends - begun.begins, "step")
    say_error(f"step {begun.number} is made again: {steps} from step {begun.begins}, then its change is split")
    return _explain(args, begun.replay(), str(path), begun.pieces)


def explain_run(args: argparse.Namespace) -> int:
    """Where a run lost its loss, and why."""
    say_error(f"at most {BUDGET} steps are made again")
    course = Course(Path(args.target))
    return finished(args, course_document(course), "\n".join(course_told(course, columns(WIDEST))))


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
    return finished(args, document, "\n".join(lines))


def _place(one: ReplayedStep, text: str) -> tuple[str, int]:
    """The name of a parameter's entry, and where it is in the arena. Raises ConfigError for another text."""
    places = one.by_parameter(np.arange(one.before.size))
    name, index = find_parameter({name: x.shape for name, x in places.items()}, text)
    return f"{name}[{','.join(map(str, index))}]", int(places[name][index])
