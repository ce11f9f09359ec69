"""Contribution bounds, checked in exact arithmetic on adversarial floats."""

import json
import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import privacy as dp
from privacy.release.sums import quantized

NASTY = [
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    1e-200,
    1e308,
    -1.7976931348623157e308,
]
ANY = st.one_of(st.floats(), st.sampled_from([*NASTY, math.nan, math.inf, -math.inf]))
# near each other, so that norms come out near the bound
LEVEL = st.sampled_from([1.0, 0.9999, 0.1, 1 / 3, 0.6, 0.8, 3.0, 1 - 2**-53, 1 + 2**-52, 1e-300])
BOUND = st.one_of(
    st.floats(min_value=5e-324, allow_infinity=False),
    st.sampled_from([1.0, 0.1, 5e-324, 1e-310, 1e308, 1.7976931348623157e308]),
)
NORMS = st.sampled_from(["l1", "l2", "linf"])


def whole(value):
    """Return a float in units of the smallest one."""
    numerator, denominator = float(value).as_integer_ratio()
    return numerator * (2**1074 // denominator)


def is_within(row, bound, norm):
    """Return whether the exact norm of a row of floats is at most the bound."""
    parts, limit = [abs(whole(x)) for x in row], whole(bound)
    if norm == "l2":
        return sum(part * part for part in parts) <= limit * limit
    return (sum(parts) if norm == "l1" else max(parts)) <= limit


@st.composite
def tables(draw, *, rows=4, columns=5, cells=None):
    shape = draw(st.integers(1, rows)), draw(st.integers(1, columns))
    cell = cells if cells is not None else draw(st.sampled_from([ANY, LEVEL]))
    row = st.lists(cell, min_size=shape[1], max_size=shape[1])
    return np.array(draw(st.lists(row, min_size=shape[0], max_size=shape[0])))


@settings(max_examples=700)
@given(tables(columns=6), BOUND, NORMS)
def test_no_float_norm_is_above_the_bound(data, bound, norm):
    contributions = dp.clip_records(data, clip_norm=bound, norm=norm)
    assert contributions.values.shape == data.shape
    assert np.isfinite(contributions.values).all()
    limit = contributions.bound_in("l1")
    for clipped in contributions.values:
        assert is_within(clipped, contributions.bound, norm)
        assert math.isinf(limit) or is_within(clipped, limit, "l1")


@given(tables(cells=st.floats(-1e6, 1e6)), st.floats(1e-3, 1e9), NORMS)
def test_clipping_keeps_what_is_inside_and_the_direction_of_the_rest(data, bound, norm):
    clipped = dp.clip_records(data, clip_norm=bound, norm=norm).values
    order = {"l1": 1, "l2": 2, "linf": np.inf}[norm]
    sizes = np.linalg.norm(data, ord=order, axis=1)
    inside = sizes <= bound * (1 - 1e-12)
    assert (clipped[inside] == data[inside]).all()
    expected = data * np.minimum(1, bound / np.maximum(sizes, 1e-290))[:, None]
    if norm == "linf":
        expected = np.clip(data, -bound, bound)
    np.testing.assert_allclose(clipped, expected, rtol=1e-12, atol=1e-300)


USERS = st.sampled_from(["ann", "bob", "cy"])


@settings(max_examples=500)
@given(tables(rows=8), st.lists(USERS, min_size=8, max_size=8), BOUND, NORMS)
def test_no_user_is_above_the_bound_and_none_depends_on_another(data, users, bound, norm):
    users = np.array(users[: len(data)])
    both = dp.clip_users(data, users, clip_norm=bound, norm=norm)
    for row, user in zip(both.values, both.users, strict=True):
        assert is_within(row, bound, norm)
        own = users == user
        alone = dp.clip_users(data[own], users[own], clip_norm=bound, norm=norm)
        assert alone.values[0].tobytes() == row.tobytes()


@settings(max_examples=300)
@given(
    st.lists(tables(rows=4, columns=2), min_size=1, max_size=12),
    st.lists(USERS, min_size=4, max_size=4),
    BOUND,
)
def test_no_lifetime_is_above_the_cap(releases, users, bound):
    cap = dp.LifetimeCap(clip_norm=bound)
    spent = dict.fromkeys(users, 0)
    for turn, data in enumerate(releases):
        if turn % 2:  # through a file
            cap = dp.LifetimeCap.from_json(json.loads(json.dumps(cap.to_json())))
        contributions = cap.clip_users(data, users[: len(data)])
        for row, user in zip(contributions.values, contributions.users, strict=True):
            spent[user] += sum(whole(x) ** 2 for x in row)
    assert all(total <= whole(bound) ** 2 for total in spent.values())
    form = cap.to_json()
    assert dp.LifetimeCap.from_json(form).to_json() == form


@settings(max_examples=500)
@given(tables(), st.floats(1e-300, 1e300), st.integers(0, 40))
def test_the_lattice_lengthens_no_norm(data, bound, fineness):
    values = dp.clip_records(data, clip_norm=bound).values
    exponent = math.frexp(bound)[1] - fineness
    step = Fraction(2) ** exponent
    for row, whole_row in zip(values, quantized(values, exponent), strict=True):
        for value, count in zip(row.tolist(), whole_row.tolist(), strict=True):
            assert 0 <= abs(Fraction(value)) - abs(count) * step < step
            assert count == 0 or (count > 0) == (value > 0)


@settings(max_examples=200)
@given(
    tables(),
    st.floats(1e-290, 1e290),
    st.floats(1e-2, 1e3),
    st.sampled_from([1.0, 2.0**10, 2.0**30]),
)
def test_a_released_sum_is_the_exact_sum_of_whole_steps_and_the_noise(data, bound, noise, fine):
    contributions = dp.clip_records(data, clip_norm=bound)
    seeded = dict(rng=3, simulation=True)
    release = dp.release_sum(contributions, dp.Gaussian(noise), resolution=fine, **seeded)
    step, scale = Fraction(release.step), Fraction(noise) * Fraction(bound)
    assert Fraction(fine) <= scale / step < 2 * Fraction(fine)
    drawn = dp.rounded_gaussian(scale / step, data.shape[1], **seeded)
    for column, one, noisy in zip(contributions.values.T, drawn, release.values, strict=True):
        total = sum(math.trunc(Fraction(x) / step) for x in column.tolist()) + int(one)
        assert float(noisy) == float(total) * release.step
