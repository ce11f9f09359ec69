"""The binary tree whose nodes are estimated from all nodes below them (Honaker 2015)."""

import numpy as np
from scipy.linalg import qr, solve_triangular

from privacy.running_sums.memory import Array


def honaker(releases: int) -> tuple[Array, Array]:
    """Return the square C of the prefixes' noise distribution, and rows for the rest of the nodes.

    docs/theory/running-sums.md ("Trees") defines T, L and Q, and derives C = Q T. With R
    orthonormal to Q, R T is what the nodes reveal besides Q T: C'C + (RT)'(RT) = T'T.
    """
    nodes = _nodes(releases)
    tree = np.zeros((len(nodes), releases))
    for i, (start, end) in enumerate(nodes):
        tree[i, start:end] = 1
    rotation, upper = qr(_estimates(nodes, releases).T)
    lower = upper[:releases].T
    matrix = solve_triangular(lower * np.sign(lower.diagonal()), np.tri(releases), lower=True)
    rest: Array = rotation[:, releases:].T @ tree
    return np.tril(matrix), rest


def _nodes(releases: int) -> list[tuple[int, int]]:
    return [
        (end - (1 << level), end)
        for end in range(1, releases + 1)
        for level in range((end & -end).bit_length())
    ]


def _estimates(nodes: list[tuple[int, int]], releases: int) -> Array:
    best: dict[tuple[int, int], Array] = {}
    for i, (start, end) in enumerate(nodes):  # children precede their parent
        own = np.zeros(len(nodes))
        own[i] = 1
        if end - start > 1:
            middle = (start + end) // 2
            halves = best[start, middle] + best[middle, end]
            variance = float(halves @ halves)  # the node's own noise has variance 1
            own = (own * variance + halves) / (1 + variance)
        best[start, end] = own
    prefixes = np.zeros((releases, len(nodes)))
    for end in range(1, releases + 1):
        start = end - (end & -end)
        prefixes[end - 1] = best[start, end] + (prefixes[start - 1] if start else 0)
    return prefixes
