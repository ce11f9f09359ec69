"""Releases as a user writes them, each with its claim; input of the audits."""

import math

N = 4  # public: how many records a mean is of
CLIP, NOISE = 1.0, 2.0
DOMAIN = ("a", "b", "c")


def clip(value, bound=CLIP):
    """Return a number within the bound; NaN contributes nothing."""
    if math.isnan(value):
        return 0.0
    return min(max(value, -bound), bound)


def clip_vector(vector, bound=CLIP):
    """Return a vector whose exact norm is within the bound."""
    finite = [x if math.isfinite(x) else 0.0 for x in vector]
    largest = max(map(abs, finite), default=0.0)
    if largest == 0.0:
        return finite
    scaled = [x / largest for x in finite]
    norm = largest * math.hypot(*scaled)
    if norm <= bound * (1 - 1e-15):
        return finite
    factor = bound / math.hypot(*scaled) * (1 - 1e-15)
    return [x * factor for x in scaled]


def total(data):
    """Return the sum of the clipped records."""
    return math.fsum(clip(value) for value in data)


def noisy_mean(data, rng):
    """Claims Gaussian(NOISE): noise on the sum, and then the scale of a mean."""
    noisy = total(data) + rng.normal(0, NOISE * CLIP)
    return noisy / N


def two_answers(data, rng):
    """Claims two Gaussian(NOISE): a sum and a count."""
    noise = rng.normal(0, NOISE * CLIP)
    fresh = rng.normal(0, NOISE)
    return [total(data) + noise, len(data) + fresh]


def histogram(data):
    """Return a count for each value of a public domain: contribution 1."""
    return {value: sum(one == value for one in data) for value in DOMAIN}


def user_totals(rows):
    """Return each user's clipped sum: contribution CLIP for all records of one user."""
    sums = {}
    for user, value in rows:
        sums[user] = sums.get(user, 0.0) + clip(value)
    return {user: clip(value) for user, value in sums.items()}


def user_sum(rows, rng):
    """Claims Gaussian(NOISE) at user level."""
    return math.fsum(user_totals(rows).values()) + rng.normal(0, NOISE * CLIP)


def batches(data, rng):
    """Claims Gaussian(NOISE): two batches by public index, each with noise of its own."""
    halves = [data[: N // 2], data[N // 2 :]]
    return [total(half) + rng.normal(0, NOISE * CLIP) for half in halves]
