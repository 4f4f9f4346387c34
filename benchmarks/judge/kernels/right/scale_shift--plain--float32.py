"""As the reference has it."""


def forward(x, gamma, beta):
    return gamma * x + beta, (x, gamma)


def backward(dy, cache):
    x, gamma = cache
    return dy * gamma, (dy * x).sum(0), dy.sum(0)
