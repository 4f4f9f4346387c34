from types import SimpleNamespace


def Limits(seconds):
    return SimpleNamespace(seconds=seconds)
