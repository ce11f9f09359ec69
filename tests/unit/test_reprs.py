"""Representations paste back, and notebooks show tables."""

import math

import pytest

import privacy as dp
from privacy import mechanisms

NAMES = {name: getattr(dp, name) for name in dp.__all__} | vars(mechanisms) | {"inf": math.inf}
PLAN = dp.Plan("a <plan>", (("sum", dp.Gaussian(4.0)),), epsilon=1.0, delta=1e-6)
VALUES = [
    *(known.example for known in mechanisms.REGISTRY.values() if known.example is not None),
    dp.best_of(dp.Gaussian(4.0), mean_runs=10, distribution="poisson"),
    dp.compose(dp.Gaussian(4.0), dp.repeat(dp.PureDP(0.1, "REPLACE_ONE"), 5)),
    dp.parallel(dp.Gaussian(4.0), dp.Laplace(3.0)),
    dp.account(dp.Gaussian(2.0)).guarantee(delta=1e-5),
    dp.account(dp.Gaussian(2.0)).guarantee(delta=0),
    dp.account(dp.Gaussian(2.0)).answer(delta=1e-5),
    PLAN,
    *dp.NeighboringRelation,
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_repr_pastes_back(value):
    assert eval(repr(value), dict(NAMES)) == value


def test_a_notebook_shows_tables():
    curve = dp.account(dp.Gaussian(2.0))
    assert "<th style='text-align:left'>part &#x27;sum&#x27;</th>" in PLAN._repr_html_()
    assert "a &lt;plan&gt;" in PLAN._repr_html_()
    assert "epsilon=1, delta=1e-06" in PLAN._repr_html_()
    assert "epsilon at delta=1e-06" in curve._repr_html_()
    # 1.99309140..., rounded up
    assert "<td style='text-align:left'>1.9931</td>" in curve.guarantee(delta=1e-5)._repr_html_()
