"""All tasks are what the trainer asks for, and the package names its public parts."""

import npformer.data
from npformer.data import Characters, Example, PairsTask, SequenceTask, Task, TextTask

MEMBERS = {name for name in vars(Task) if not name.startswith("_")}


def test_tasks_have_every_member():
    pairs = [Example(str(n), str(n)) for n in range(100)]
    tasks = [
        SequenceTask("copy", seed=0),
        PairsTask(pairs, name="pairs", digest="", seed=0),
    ]
    texts = "copied text " * 20
    tasks.append(TextTask("lm", "causal", Characters.learn([texts]), texts, texts, seed=0, digest="", max_length=9))
    assert {
        "name", "kind", "tokenizer", "vocabulary", "classes", "max_length", "batch", "collate", "held_out",
    } == MEMBERS  # fmt: skip
    for task in tasks:
        assert all(hasattr(task, name) for name in MEMBERS)
        batch = task.batch(1, 8)
        assert all(1 <= array.shape[0] <= 8 for array in batch)
        assert all(array.shape[1] <= task.max_length and array.max() < len(task.vocabulary) for array in batch)


def test_public_names_are_there_and_none_is_forgotten():
    public = npformer.data.__all__
    assert len(set(public)) == len(public)
    assert all(hasattr(npformer.data, name) for name in public)
    classes = {name for name, thing in vars(npformer.data).items() if isinstance(thing, type)}
    assert classes < set(public)
    assert {"BOS_ID", "EOS_ID", "PAD_ID", "SEQUENCE", "SPECIAL", "Task", "collate"} < set(public)
