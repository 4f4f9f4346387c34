"""Random numbers of models of all kinds: every split adds up."""

from dataclasses import replace

from tests.explain.random_numbers import problems, random_checks


def test_twenty_random_numbers_are_explained_exactly():
    checks = list(random_checks(20, seed=3))
    assert {check.name: check.problems for check in checks if not check.ok} == {}
    assert len({check.name for check in checks}) >= 15
    assert sum(check.value != 0 for check in checks) >= 12
    assert any("@" in check.place for check in checks)


def test_a_right_explanation_has_no_problem(explained):
    assert list(problems(explained)) == []


def test_each_wrong_part_is_a_problem(explained):
    share = explained.tokens[1]
    way, value = explained.paths.ways[0], explained.value
    group = explained.terms.groups[0]
    assert share.value != 0
    wrong = {
        "gradcheck's verdict is WRONG": replace(explained, value=value._replace(verdict="WRONG")),
        "tokens:": replace(explained, tokens=(share._replace(value=share.value * (1 + 1e-9)), *explained.tokens[2:])),
        "paths:": replace(explained, paths=replace(explained.paths, ways=explained.paths.ways[1:])),
        "the sum of decoder": replace(
            explained,
            paths=replace(
                explained.paths, sums=(explained.paths.sums[0]._replace(past=0.0), *explained.paths.sums[1:])
            ),
        ),
        "terms:": replace(
            explained, terms=replace(explained.terms, groups=(group._replace(products=group.products[:5]),))
        ),
        "up: dQ": replace(explained, up=(replace(explained.up[0], value=explained.up[0].value * 2), *explained.up[1:])),
        "does not fall fourfold": replace(explained, means=explained.means._replace(falls_fourfold=False)),
    }
    assert way.value != 0
    for words, changed in wrong.items():
        assert any(words in problem for problem in problems(changed)), words
