"""Ends the process."""

import os

import numpy as np


def forward(x, w, z):
    return np.einsum("na,ab,nb->n", x, w, z), (x, w, z)


def backward(dy, cache):
    os._exit(0)
