"""Stored results of PLD-accounting 2.0 and jax-privacy 2.0.0; the benchmark checks all draws."""

import pytest

import privacy as dp
from tests.benchmarks.allocation import apart, cyclic, reference

DRAWS = reference("pld-accounting 2.0")


@pytest.mark.parametrize("row", DRAWS[:60:10], ids=lambda row: f"steps={row['steps']}")
def test_the_brackets_of_random_allocation_overlap(row):
    assert apart(row) <= 0


@pytest.mark.parametrize("row", reference("jax-privacy 2.0.0"), ids=lambda row: str(row["steps"]))
def test_cyclic_poisson_equals_the_amplified_bandmf_event(row):
    found = dp.account(cyclic(row)).epsilon(row["delta"])
    assert found == pytest.approx(row["epsilon"], rel=1e-4)
