"""The manual's two sides share no paragraph, though its topics overlap."""

from npformer.data.real.manual import lm, manual, mlm


def test_sides_share_no_paragraph():
    train, held_out = manual()
    parts = [{" ".join(part.split()) for part in side.split("\n\n")} for side in (train, held_out)]
    assert parts[0].isdisjoint(parts[1])
    assert 0.05 < len(held_out) / len(train) < 0.25
    assert "statement" in train
    assert manual() == (train, held_out)


def test_whole_topics_are_held_out_and_no_paragraph_is_there_twice():
    topics = {f"topic{n}": f"A title {n}\n\nshared by all\n\nalone in {n}\n\n   code {n}\n" for n in range(40)}
    train, held_out = manual(topics)
    assert (train + held_out).count("shared by all") == 1
    assert "shared by all" in held_out
    for n in range(40):
        sides = [side for side in (train, held_out) if f"alone in {n}\n" in side]
        assert len(sides) == 1
        assert f"A title {n}\n\n" in sides[0]
        assert f"\n   code {n}\n" in sides[0]
    assert 0 < held_out.count("alone in") <= 4


def test_every_character_can_be_said_and_each_is_asked_for_once():
    task = lm(max_length=100)
    _, held_out = manual()
    windows = task.held_out()
    asked = task.collate(windows).targets
    assert task.tokenizer.coverage(held_out).missing.total() == 0
    assert "".join(task.tokenizer.decode(row) for row in asked) == "".join(source for source, _ in windows)
    assert len("".join(source for source, _ in windows)) > 0.99 * len(held_out)


def test_pieces_are_learnt_from_the_training_side_alone():
    task = mlm()
    train, _ = manual()
    assert len(task.vocabulary) == 1_000
    assert all(piece.removeprefix("##") in train for piece in task.vocabulary.text_pieces)
