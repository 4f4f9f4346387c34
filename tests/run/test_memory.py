"""What a step needs at least: no more than it takes when it is made, and compared with the memory that there is."""

import tracemalloc
from dataclasses import replace

import pytest

from npformer.backend import workspace
from npformer.errors import ConfigError
from npformer.models import EncoderConfig
from npformer.run import memory
from npformer.run.assemble import assemble
from npformer.run.memory import host_memory, least_bytes
from tests.run.runs import small_sections

ROWS = 200
#: Models and trainings whose steps are measured, each with its task.
MEASURED = {
    "defaults": ("reverse", {}, {}),
    "wide inside": ("copy", {"d_ff": 512, "d_model": 8, "num_heads": 2, "norm_order": "post"}, {}),
    "wide outside": ("copy", {"d_ff": 8, "activation": "gelu", "positions": "learned"}, {"optimizer": "adamw"}),
    "recompute": ("copy", {"recompute": True, "num_decoder_layers": 4}, {}),
    "in parts": ("sort", {}, {"accumulate": 3}),
    "batch norm, linear": ("copy", {"norm": "batch", "attention": "linear", "positions": "none"}, {}),
    "local, tied": ("copy", {"attention": "local", "window": 2, "tie_embeddings": True}, {}),
    "one step": ("copy", {"d_model": 128, "d_ff": 1024}, {"steps": 1}),
    "text": ("lm", {"num_layers": 1}, {"batch_size": 20}),
    "words": ("lm", {"num_layers": 1}, {"batch_size": 20}),
}


def shape_of(task, size):
    """Rows and least width of the first batch."""
    batch = task.batch(1, size)
    return len(batch[0]), min(array.shape[1] for array in batch)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_text("".join(f"{n} is less than {n + 1}. It is even.\n\n" for n in range(400)))
    return path


@pytest.mark.parametrize(
    ("case", "kernels", "dtype"),
    [
        *((case, "numpy", "float32") for case in MEASURED),
        ("defaults", "plain", "float64"),
        ("recompute", "plain", "float64"),
    ],
)
def test_a_step_takes_what_it_is_said_to_need_at_least(case, kernels, dtype, text):
    """And the bound is worth something: it is not below a sixth of it."""
    task, model, training = MEASURED[case]
    data = (
        {"file": str(text), "tokenizer": "words" if case == "words" else "characters"}
        if task == "lm"
        else {"max_length": 3}
    )
    sections = {
        "run": {"task": task, "device": "numpy", "kernels": kernels, "dtype": dtype},
        "data": data, "model": model, "training": {"batch_size": ROWS, "steps": 2} | training,
    }  # fmt: skip
    parts = assemble(sections)
    task, options = parts.task, parts.options
    threads = parts.step.model.backend.threads
    need = sum(least_bytes(options, *shape_of(task, options.training.batch_size), threads))
    parts.step(*task.batch(1, options.training.batch_size))  # what is imported at a first step is not counted
    del parts
    workspace.forget_unused()
    tracemalloc.start()
    try:
        parts = assemble(sections)
        for step in range(1, options.training.steps + 1):
            parts.step(*parts.task.batch(step, options.training.batch_size))
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert need <= taken
    assert case == "words" or taken <= 6 * threads * need  # the bound counts the shard of one thread


@pytest.mark.parametrize("training", [{"steps": 5}, {"steps": 1}])
def test_a_step_that_fits_exactly_is_let_through(monkeypatch, training):
    sections = small_sections(training={"batch_size": 50} | training)
    parts = assemble(sections)
    model, batch = least_bytes(parts.options, *shape_of(parts.task, 50), parts.step.model.backend.threads)
    monkeypatch.setattr(memory, "host_memory", lambda: model + batch)
    assemble(sections)
    monkeypatch.setattr(memory, "host_memory", lambda: model + batch - 1)
    with pytest.raises(ConfigError, match=r"^training\.batch_size: .* for 50 sequences of \d+ tokens; at most 49 can"):
        assemble(sections)


def test_nothing_large_is_made_before_it_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "host_memory", lambda: 16e9)
    for changes in ({"training": {"batch_size": 2**31 - 1}}, {"model": {"d_model": 2**20}}):
        tracemalloc.start()
        with pytest.raises(ConfigError, match=r"batch_size: expected a step that fits into the memory, 16\.0"):
            assemble(small_sections(**changes))
        assert tracemalloc.get_traced_memory()[1] < 1e8
        tracemalloc.stop()


def test_a_device_s_own_memory_is_what_counts(monkeypatch):
    parts = assemble(small_sections())
    backend = parts.step.model.backend
    monkeypatch.setattr(memory, "host_memory", lambda: 0)
    monkeypatch.setattr(backend.device, "memory", 10**9, raising=False)
    memory.expect_memory(parts.options, parts.task, backend)
    monkeypatch.setattr(backend.device, "memory", 10**3)
    with pytest.raises(ConfigError, match=r"^training\.batch_size: expected a step that fits into the memory"):
        memory.expect_memory(parts.options, parts.task, backend)
    memory.expect_memory(parts.options, parts.task, backend, done=10)  # a finished run makes no step


def test_what_is_counted():
    """Two layers of 8 + 5·8 numbers a token, and the logits, for the tokens of one shard; the ids of all rows."""
    parts = assemble(small_sections())
    options, parameters = parts.options, parts.step.model.num_parameters()
    classes = options.model.tgt_vocab_size
    sequence = EncoderConfig(9, head="sequence", num_classes=4, d_model=8, num_heads=2, d_ff=8, num_layers=3)
    for changes, rows, threads, kept in (
        ({}, 6, 1, 6 * 3 * 4 * (2 * 48 + classes)),
        ({}, 7, 2, 4 * 3 * 4 * (2 * 48 + classes)),
        ({"training": replace(options.training, accumulate=3)}, 7, 2, 2 * 3 * 4 * (2 * 48 + classes)),
        ({"run": replace(options.run, dtype="float64")}, 6, 1, 6 * 3 * 8 * (2 * 48 + classes)),
        ({"model": replace(options.model, recompute=True)}, 6, 1, 6 * 3 * 4 * (2 * 8 + max(48, classes))),
        ({"model": sequence}, 6, 1, 6 * 3 * 4 * 3 * 48),
    ):
        model, batch = least_bytes(replace(options, **changes), rows, 3, threads)
        assert batch == kept + 8 * rows * 3, changes
        size = 8 if "float64" in str(changes) else 4
        assert "model" in changes or model == 4 * parameters * size


KILO = 1024
MEMINFO = f"MemTotal:    {4 * KILO} kB\nMemFree:  1 kB\nSwapTotal:   {KILO} kB\n"
#: The files of a system, and the bytes that it has.
SYSTEMS = [
    ({}, float("inf")),
    ({"/proc/meminfo": MEMINFO}, 5 * KILO**2),
    ({"/proc/meminfo": MEMINFO, "/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max\n"}, 5 * KILO**2),
    ({"/proc/meminfo": MEMINFO, "/proc/self/cgroup": "1:cpu:/x\n0::/a/b\n", "/sys/fs/cgroup/a/memory.max": "7\n",
      "/sys/fs/cgroup/a/b/memory.max": "9\n", "/sys/fs/cgroup/x/memory.max": "1\n"}, 7 + KILO**2),
    ({"/proc/meminfo": MEMINFO, "/proc/self/cgroup": "4:cpu,memory:/\n",
      "/sys/fs/cgroup/memory/memory.limit_in_bytes": "3\n"}, 3 + KILO**2),
]  # fmt: skip


@pytest.mark.parametrize(("files", "expected"), SYSTEMS)
def test_the_memory_of_a_machine(files, expected, monkeypatch):
    monkeypatch.setattr(memory, "_text", lambda path: files.get(str(path), ""))
    assert host_memory() == expected
