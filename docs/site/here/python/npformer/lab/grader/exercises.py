"""The exercises as the page has them: their data, and the reference pair."""

import json
from types import SimpleNamespace

import js
import numpy as np

from npformer.lab.grader.parts import FUNCTIONS

with open("/page/data/hints.json") as file:
    HINTS = json.load(file)


def find(name):
    with open("/page/data/" + name + ".json") as file:
        told = json.load(file)
    exercise = SimpleNamespace(**{k: tuple(v) if isinstance(v, list) else v for k, v in told.items()})
    exercise.forward, exercise.backward = (FUNCTIONS[function] for function in exercise.functions)
    return exercise


def cases_of(exercise):
    """Its cases, with the reference's results."""
    return tuple([_case(exercise, told) for told in exercise.cases])


def _case(exercise, told):
    arguments, upstream = _value(told["arguments"]), _value(told["upstream"])
    outputs, cache = exercise.forward(*arguments)
    given = dict(told, arguments=arguments, upstream=upstream, outputs=outputs, cache=cache)
    return SimpleNamespace(gradients=exercise.backward(upstream, cache), **given)


def _value(form):
    if not isinstance(form, dict):
        return form
    if "at" in form:
        return np.ndarray(js.nts.block(form["at"], js.nts.listed(*form["shape"]), form["dtype"]))
    if "tuple" in form:
        return tuple([_value(part) for part in form["tuple"]])
    return {key: _value(part) for key, part in form["dict"].items()}
