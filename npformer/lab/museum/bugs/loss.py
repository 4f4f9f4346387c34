"""Bugs in the loss: its divisor, and the tokens that count."""

from npformer.lab.museum.bug import OURS, SEVERAL, Bug, edit

CE = "npformer.functional.cross_entropy:"
BACK, FORWARD = CE + "cross_entropy_backward", CE + "cross_entropy_forward"
CATEGORY = "loss"

BUGS = (
    Bug(
        "loss-by-batch", "mean over tokens forward, divided by the batch only backward",
        edit(BACK, "(p - q) * (counted * (dloss / num_counted))", "(p - q) * (counted * (dloss / p.shape[0]))"),
        "dz = (p − q)/N, over the N tokens that count", "dz = (p − q)/B",
        "Every gradient of the model is N/B times too large: T times, if there is no padding. Adam does not notice, "
        "plain gradient descent diverges at a learning rate that should be fine, and clipping, weight decay and "
        "anything else with a scale of its own mean something else than they say. A ratio of wrong to right that is "
        "one number for all tensors points at the loss.",
        seen=SEVERAL, sources=(9,), run={"clip_norm": 0.1},
    ),
    Bug(
        "loss-by-batch-twice", "divided by the batch twice",
        edit(
            BACK,
            "(p - q) * (counted * (dloss / num_counted))",
            "(p - q) * (counted * (dloss / num_counted / p.shape[0]))",
        ),
        "dz = (p − q)/N", "dz = (p − q)/N/B",
        "The loss function divides, and so does the first layer of backward, each sure that the other does not. "
        "The learning rate is B times smaller than it says, and changes with the batch size in the wrong direction.",
        sources=(9,),
    ),
    Bug(
        "loss-counts-padding", "padding counted in the mean",
        edit(CE + "_counted", "num_counted = xp.sum(counted)", "num_counted = xp.sum(xp.ones_like(counted))"),
        "loss = Σ over counted tokens / their number", "loss = Σ over counted tokens / B·T",
        "Padding adds nothing to the sum but is counted below the line, so the loss looks better the more padding "
        "there is, and long sentences pull harder than short ones' neighbours. Forward and backward agree. Pad a "
        "batch further, and the loss changes: that is the test.",
        sources=(9,),
    ),
    Bug(
        "loss-trains-padding", "padding trained as if it were a token",
        edit(CE + "_counted", "targets != ignore_index", "targets == targets"),
        "a token whose target is padding does not count", "it counts like any other",
        "The model spends its effort on predicting [PAD] after [EOS], which is easy, and the mean loss is flattered by "
        "thousands of easy tokens. Accuracy per token looks wonderful for the same reason.",
        seen=OURS, sources=(9,),
    ),
    Bug(
        "loss-smooths-padding", "label smoothing reaches the ignored tokens",
        edit(
            FORWARD,
            "xp = namespace(logits)\n"
            "...\n"
            "q = _target_distribution(logits, targets, label_smoothing)\n"
            "...\n"
            "counted, num_counted = _counted(targets, ignore_index, logits)",
            "xp = namespace(logits)\n"
            "...\n"
            "q = _target_distribution(logits, targets, label_smoothing)\n"
            "...\n"
            "counted, num_counted = _counted(targets, ignore_index, logits)\n"
            "counted = xp.where(counted > 0, counted, label_smoothing * xp.ones_like(counted))",
        ),
        "ignored tokens: no loss, smoothing or not", "ignored tokens: label_smoothing times their loss",
        "The one-hot part was masked, the smoothing part was added later and was not. The gradient pulls every padded "
        "position towards even odds. It needs smoothing and padding at once to show, and each has a test of its own.",
        sources=(9,), run={"label_smoothing": 0.1},
    ),
    Bug(
        "smoothing-too-much-mass", "smoothed targets that sum to more than 1",
        edit(CE + "_target_distribution", "(1 - label_smoothing) * one_hot", "one_hot"),
        "q = (1 − smoothing)·onehot + smoothing/V", "q = onehot + smoothing/V, sum 1 + smoothing",
        "The gradient p − q is that of a *distribution* q. With a sum above 1 there are no logits at which it is 0: "
        "each step pushes all of a token's logits up together, for ever. Softmax does not see the push, and the bias "
        "of the last layer drifts. Check that what should be a distribution sums to 1.",
        seen=OURS, run={"label_smoothing": 0.1},
    ),
    Bug(
        "loss-without-softmax", "−1/p handed to the logits",
        edit(BACK, "(p - q) * (counted * (dloss / num_counted))", "(-q / p) * (counted * (dloss / num_counted))"),
        "dz = p − q", "dz = −q/p, the gradient of p, not of z",
        "−q/p is right for somebody who feeds probabilities; the step through softmax is missing. Only the target's "
        "logit gets a gradient, always upwards and huge where p is small. Nothing ever pushes the other classes down "
        "but the weights they share.",
        seen=OURS,
    ),
    Bug(
        "loss-eps-in-log", "log(p + 1e-9) in place of log-softmax",
        edit(
            FORWARD,
            "power_sum = xp.sum(powers, axis=-1, keepdims=True)\n"
            "...\n"
            "token_loss = xp.log(power_sum) - xp.sum(q * shifted, axis=-1, keepdims=True)",
            "power_sum = xp.sum(powers, axis=-1, keepdims=True)\n"
            "...\n"
            "token_loss = -xp.sum(q * xp.log(powers / power_sum + 1e-9), axis=-1, keepdims=True)",
        ),
        "log p = z − max − log Σ exp(z − max)", "log(p + 1e-9)",
        "For p = 0.1 it makes no difference in eight digits. For a token that the model finds impossible the loss "
        "stops at 20.7 nats, whatever the logits are, and no longer matches the gradient p − q. log-softmax written "
        "out has no such floor and needs no ε.",
        seen=OURS, run=None, instead=(
            "The curves agree to six digits: only tokens that the model finds impossible differ."
        ),
    ),
    Bug(
        "loss-overflow", "cross-entropy without subtracting the maximum",
        edit(FORWARD, "shifted = logits - xp.max(real_part(logits), axis=-1, keepdims=True)", "shifted = logits"),
        "log Σ exp(z − max) + max", "log Σ exp(z)",
        "exp overflows in float32 at 88.7. The first token with such a logit makes the loss infinite and the gradient "
        "NaN. It comes late in training, when a model has become sure, and takes everything with it.",
        seen=OURS, run=None, instead="A short run on a small task does not reach such logits: the curves are equal.",
    ),
)  # fmt: skip
