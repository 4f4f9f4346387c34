"""npformer train --options: the table of options, and as JSON."""

import pytest

from npformer.run.options import option_rows


def test_the_options_of_a_task(cli, tmp_path):
    done = cli("train lm --options").quiet()
    lines = done.lines
    assert [line for line in lines if line.startswith("[")] == ["[run]", "[data]", "[model]", "[training]"]
    (steps,) = [line.split() for line in lines if line.split()[:1] == ["steps"]]
    assert steps == ["steps", "3000", "whole", "number", "training", "steps", "in", "all"]
    assert not [line for line in lines if line.split()[:1] == ["symbols"]], "of generated words alone"
    assert list(tmp_path.iterdir()) == [], "nothing is trained"


def test_the_options_of_all_tasks(cli):
    text = cli("train --options").out
    assert all(f"  {row.name} " in text for row in option_rows())


@pytest.mark.parametrize("task", [None, "scan"])
def test_json(cli, task):
    document = cli(f"train {task or ''} --options --json").document
    assert document == {"task": task, "options": [row._asdict() for row in option_rows(task)]}
