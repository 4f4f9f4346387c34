"""The benchmark of memory after many shapes."""

from benchmarks.faults import memory


def test_a_row_for_each_kind_of_work(call):
    rows = call(memory.main, "--kernels numpy --shapes 3 --json").fine().document
    assert [(row["kernels"], row["work"], row["shapes"]) for row in rows] == [
        ("numpy", "train", 3),
        ("numpy", "decode", 3),
    ]
    assert all(row["first_bytes"] > 1e7 and row["last_bytes"] > 1e7 for row in rows)


def test_the_table_says_how_much_it_grew():
    row = {"kernels": "numpy", "work": "train", "shapes": 2000, "first_bytes": 5e7, "last_bytes": 6.5e7}
    heading, line = memory.table([row | {"growth_in_use": -1e6, "kept": 4e6}]).splitlines()
    assert heading.split() == ["kernels", "work", "shapes", "after", "100", "at", "last", "growth", "in", "use", "kept"]
    sizes = ["50.0", "MB", "65.0", "MB", "15.0", "MB", "-1.0", "MB", "4.0", "MB"]
    assert line.split() == ["numpy", "train", "2000", *sizes]
