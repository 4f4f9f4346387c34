"""What a task trains on, as text."""

from npformer.data import Example


def rows(task, batch):
    """The examples of a batch of sources and targets."""
    decode = task.tokenizer.decode
    return [Example(decode(source), decode(target)) for source, target in zip(batch[0], batch[-1], strict=True)]


def epoch(task, batch_size=100):
    """Every training example, as often as it is there."""
    steps = range(1, -(-task.train_size // batch_size) + 1)
    return [row for step in steps for row in rows(task, task.batch(step, batch_size))]
