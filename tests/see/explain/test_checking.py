"""Random numbers of models of all kinds are explained, and every split of them adds up."""

from itertools import count as counting

import numpy as np

from npformer.check.cases.catalogue import catalogue, random_model_case
from npformer.check.inputs import as_tuple
from npformer.check.report import RIGHT
from npformer.see.explain.explanation import explanation
from npformer.see.explain.number import find, names_of_calls
from npformer.see.record.models import NAMES, case_setting, model_setting
from npformer.see.record.recording import session

SEED = 3
#: Relative to the largest term: a sum that is further from the number is wrong.
EXACT = 1e-12
#: Far more than anybody draws: a draw that is not used is replaced by the one after so many.
DRAWS = 1_000_000


def setting_of(number, rng):
    """In turn a named model, a random one, and a model and a layer of the catalogue."""
    kind = number % 4
    if kind == 0:
        return model_setting(NAMES[number // 4 % len(NAMES)])
    if kind == 1:  # at least three features: of two, a norm leaves only signs, and all gradients are rounding
        drawn = (case_setting(random_model_case(SEED, number + DRAWS * i)) for i in counting())
        return next(setting for setting in drawn if setting.target.config.d_model > 2)
    cases = [case for case in catalogue() if case.group == ("model" if kind == 2 else "layer")]
    return case_setting(cases[int(rng.integers(len(cases)))])


def random_place(opened, rng):
    """A place with its index: three times in four a parameter's or an input's, else an activation's."""
    tensors = opened.checked.tensors
    if tensors and rng.integers(4):
        name = list(tensors)[int(rng.integers(len(tensors)))]
        shape = tensors[name].shape
    else:
        calls = {
            f"{each}@output": call
            for each, call in names_of_calls(opened).items()
            if call.backward_time is not None and not isinstance(call.output, tuple) and np.ndim(call.output)
        }
        name = list(calls)[int(rng.integers(len(calls)))]
        shape = np.shape(as_tuple(calls[name].output)[0])
    index = ",".join(str(int(rng.integers(size))) for size in shape)
    return find(opened, f"{name}[{index}]" if shape else name).text


def splits(explained):
    """Each split: its name, the number, its parts, and the largest term that was rounded.

    That is a term of the number's own sum: a token's or a way's part is itself a sum of such terms.
    """
    value = explained.value.analytic
    for name, sums in (("terms", explained.terms), ("why", explained.why), *(("up", step) for step in explained.up)):
        if sums is not None and not sums.begins:
            yield name, sums.value, products(sums), 0.0
    largest = max(map(abs, products(explained.terms)), default=0.0)
    yield "tokens", value, [each.value for each in explained.tokens], largest
    yield "paths", value, [*(way.value for way in explained.paths.ways), explained.paths.remainder], largest
    for each in explained.paths.sums:
        yield each.name, value, [each.through, each.past, each.elsewhere], largest


def products(sums):
    return [product.value for group in sums.groups for product in group.products]


def test_twenty_random_numbers_are_explained_exactly():
    names, places, values = set(), [], []
    for number in range(20):
        rng = np.random.default_rng([SEED, 22, number])
        setting = setting_of(number, rng)
        with session(setting) as opened:
            places.append(random_place(opened, rng))
            explained = explanation(opened, places[-1])
        names.add(setting.name)
        values.append(explained.value.analytic)
        assert explained.value.verdict == RIGHT
        assert explained.means.falls_fourfold
        for name, value, parts, largest in splits(explained):
            largest = max([largest, abs(value), *map(abs, parts)])
            assert abs(sum(parts) - value) <= EXACT * largest, (setting.name, places[-1], name)
    assert len(names) >= 15
    assert np.count_nonzero(values) >= 12
    assert any("@" in place for place in places)
