"""Never returns from its backward."""


def forward(x, gamma, beta):
    c = x - x.mean(-1, keepdims=True)
    return gamma * c / ((c * c).mean(-1, keepdims=True) + 1e-5) ** 0.5 + beta, None


def backward(dy, cache):
    while True:
        pass
