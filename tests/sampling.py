"""The sample of the cases: every test function, and in it every value of every parameter, at least once.

A function that is run for shapes × dtypes × seeds × tables of kernels has hundreds of cases that differ from each
other in one parameter. Of those, so many are kept that each shape, each dtype, each seed and each table occurs; a
list of examples that is no such product stays whole, since each of its cases has a value of its own. Of the
catalogue, which many functions go over, each takes a share, another one than the next. What needs a GPU is never left
out. Which cases are kept is a matter of their names alone: the same on every machine, in every process, on every day.
"""

from hashlib import sha256

from npformer.check import Case

#: One of so many cases of the catalogue is for each function that goes over more than MANY of them.
SHARES, MANY = 4, 12


def sampled(items):
    """The items that are kept, in their order."""
    functions, items = {}, list(items)
    for item in items:
        functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {nodeid for function, cases in functions.items() for nodeid in _kept(function, cases)}
    return [item for item in items if item.nodeid in kept]


def _kept(function, items):
    parameters = {item.nodeid: item.callspec.params for item in items if hasattr(item, "callspec")}
    if len(items) == 1 or len(parameters) < len(items):
        return {item.nodeid for item in items}
    on_gpu = {item.nodeid for item in items if item.get_closest_marker("gpu") or "gpu" in item.fixturenames}
    of_others = _of_others(function, parameters)
    return on_gpu | sample({name: values_of(values) for name, values in parameters.items() if name not in of_others})


def _of_others(function, parameters):
    """The cases that go over a part of the catalogue that other functions go over."""
    case_names = {
        name: next((x.name for x in values.values() if isinstance(x, Case)), "") for name, values in parameters.items()
    }
    named = set(case_names.values()) - {""}
    others = {case for case in named if _hash(f"{function} {case}")[0] % SHARES}
    few = len(named) <= MANY or others == named
    return set() if few else {name for name, case in case_names.items() if case in others}


def sample(cases):
    """Names of cases of one function, each with its values, -> those that are kept: together they have every value.

    The one with most values that are still missing is next; of equals, the one whose name has the smallest hash.
    """
    missing = frozenset().union(*cases.values())
    waiting = sorted(cases, key=_hash)
    kept = set()
    while missing:
        best = max(waiting, key=lambda name: len(cases[name] & missing))  # the first of equals
        kept.add(best)
        missing -= cases[best]
    return kept


def values_of(parameters):
    """The values of a case: a number and a text by what it is, all else by which object it is."""
    plain = str | bytes | int | float
    return frozenset((name, (type(x), x) if isinstance(x, plain) else id(x)) for name, x in parameters.items())


def _hash(text):
    return sha256(text.encode()).digest()
