"""Random numbers of models of all kinds: every split adds up. ``npformer explain --random 200`` checks more."""

from dataclasses import replace

from npformer.explain import random_checks
from npformer.explain.checking import problems


def test_twenty_random_numbers_are_explained_exactly():
    checks = list(random_checks(20, seed=3))
    assert {each.name: each.problems for each in checks if not each.ok} == {}
    assert len({each.name for each in checks}) >= 15
    assert sum(each.value != 0 for each in checks) >= 12
    assert any("@" in each.place for each in checks)


def test_a_right_explanation_has_no_problem(found):
    assert list(problems(found)) == []


def test_each_wrong_part_is_a_problem(found):
    share = found.tokens[1]
    way, value = found.paths.ways[0], found.value
    group = found.terms.groups[0]
    assert share.value != 0
    wrong = {
        "gradcheck's verdict is WRONG": replace(found, value=value._replace(verdict="WRONG")),
        "tokens:": replace(found, tokens=(share._replace(value=share.value * (1 + 1e-9)), *found.tokens[2:])),
        "paths:": replace(found, paths=replace(found.paths, ways=found.paths.ways[1:])),
        "the sum of decoder": replace(
            found, paths=replace(found.paths, sums=(found.paths.sums[0]._replace(past=0.0), *found.paths.sums[1:]))
        ),
        "terms:": replace(found, terms=replace(found.terms, groups=(group._replace(products=group.products[:5]),))),
        "up: dQ": replace(found, up=(replace(found.up[0], value=found.up[0].value * 2), *found.up[1:])),
        "does not fall fourfold": replace(found, means=found.means._replace(falls_fourfold=False)),
    }
    assert way.value != 0
    for words, changed in wrong.items():
        assert any(words in problem for problem in problems(changed)), words
