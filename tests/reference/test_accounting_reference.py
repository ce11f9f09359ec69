"""Values known to many digits: never below the exact value, and close above it."""

import json
import math
from pathlib import Path

import pytest

import privacy as dp
from bandits.experiments.printed_formula import printed_subsampling_formula_not_a_bound
from privacy.accounting import NOTION_MODULES

HERE = Path(__file__).parent
REPLACE_ONE = dp.NeighboringRelation.REPLACE_ONE
ROUNDING = 8e-15
CONTOUR = "contour" in NOTION_MODULES
"""Without the tight notion a composed answer is only asked to be no less than the truth."""


def entries(name):
    return json.loads((HERE / name).read_text(encoding="utf-8"))["entries"]


ENTRIES = entries("accounting_reference.json") + entries("tight_reference.json")


def of_kind(*kinds):
    found = [entry for entry in ENTRIES if entry["kind"] in kinds]
    assert {entry["kind"] for entry in found} == set(kinds)
    return pytest.mark.parametrize("entry", [pytest.param(e, id=e["id"]) for e in found])


def parameters(entry):
    """Return the numeric parameters as floats, T as a whole number."""
    values = {}
    for name, value in entry["params"].items():
        try:
            values[name] = float(value)
        except (TypeError, ValueError):
            continue
    values["T"] = int(values.get("T", 1))
    return values


def run(p):
    step = dp.Gaussian(p["sigma"])
    if p.get("q", 1) < 1:
        step = dp.PoissonSampled(step, sampling_probability=p["q"])
    return dp.repeat(step, p["T"])


def assert_close_above(ours, truth, tolerance, *, slack=ROUNDING):
    """`ours` is at least `truth` up to the reference's own error, and near it."""
    truth = float(truth)
    size = abs(truth) or 1.0
    assert (ours - truth) / size >= -slack
    assert (ours - truth) / size <= tolerance


def assert_close_below(ours, truth, tolerance):
    assert_close_above(-ours, -float(truth), tolerance)


# -- zCDP conversions -----------------------------------------------------------------------


@of_kind("rho_from_eps_classic", "rho_from_eps_cks")
def test_rho_from_epsilon(entry):
    p = parameters(entry)
    classic = entry["kind"].endswith("classic")
    ours = dp.rho_from_epsilon(p["eps"], p["delta"], conversion="classic" if classic else "optimal")
    assert_close_below(ours, entry["value"], 1e-11 if classic else 1e-9)


@of_kind("eps_from_rho_classic", "eps_from_rho_cks")
def test_epsilon_from_rho(entry):
    p = parameters(entry)
    classic = entry["kind"].endswith("classic")
    ours = dp.epsilon_from_rho(p["rho"], p["delta"], conversion="classic" if classic else "optimal")
    assert_close_above(ours, max(0.0, float(entry["value"])), 1e-11 if classic else 1e-9)


@of_kind("delta_from_rho_cks")
def test_delta_from_rho(entry):
    p = parameters(entry)
    assert_close_above(dp.delta_from_rho(p["rho"], p["eps"]), entry["value"], 1e-9)


@of_kind("sigma_from_eps_classic")
def test_classic_noise_multiplier(entry):
    p = parameters(entry)
    rho = dp.rho_from_epsilon(p["eps"], p["delta"], conversion="classic")
    assert_close_above(dp.noise_multiplier_from_rho(rho), entry["value"], 1e-11)


# -- one Gaussian ---------------------------------------------------------------------------


@of_kind("gaussian_sigma_exact")
def test_gaussian_noise_multiplier(entry):
    p = parameters(entry)
    for ours in (
        dp.calibrate(dp.Gaussian, epsilon=p["eps"], delta=p["delta"]),
        dp.noise_multiplier(epsilon=p["eps"], delta=p["delta"]),
    ):
        assert_close_above(ours, entry["value"], 1e-9)


@of_kind("gaussian_eps_exact")
def test_gaussian_epsilon(entry):
    p = parameters(entry)
    assert_close_above(dp.account(run(p)).epsilon(p["delta"]), entry["value"], 1e-9)


@of_kind("gaussian_delta_exact")
def test_gaussian_delta(entry):
    p = parameters(entry)
    assert_close_above(dp.account(run(p)).delta(p["eps"]), entry["value"], 1e-9)


# -- one sampled Gaussian -------------------------------------------------------------------


@of_kind("rdp_subsampled_gaussian")
def test_renyi_divergence(entry):
    p = parameters(entry)
    ours = dp.account(run(p), notion="rdp").divergence(p["alpha"])
    assert_close_above(ours, entry["value"], 1e-10)


@of_kind("rdp_subsampled_gaussian_add_direction")
def test_renyi_divergence_is_no_less_than_that_of_adding(entry):
    p = parameters(entry)
    assert dp.account(run(p), notion="rdp").divergence(p["alpha"]) >= float(entry["value"])


@of_kind("subsampled_gaussian_eps_exact")
def test_sampled_epsilon(entry):
    p = parameters(entry)
    assert_close_above(dp.account(run(p)).epsilon(p["delta"]), entry["value"], 1e-8)


@of_kind("subsampled_gaussian_delta_exact")
def test_sampled_delta(entry):
    p = parameters(entry)
    worse = max(float(entry["value"]["remove"]), float(entry["value"]["add"]))
    assert_close_above(dp.account(run(p)).delta(p["eps"]), worse, 1e-8)


@of_kind("subsampled_gaussian_sigma_exact")
def test_sampled_noise_multiplier(entry):
    p = parameters(entry)
    ours = dp.noise_multiplier(epsilon=p["eps"], delta=p["delta"], sampling_probability=p["q"])
    assert_close_above(ours, entry["value"], 1e-8)


@of_kind("subsampled_gaussian_eps_replace_antipodal")
def test_sampled_epsilon_when_one_record_is_replaced(entry):
    p = parameters(entry)
    ours = dp.account(run(p), relation=REPLACE_ONE).epsilon(p["delta"])
    assert_close_above(ours, entry["value"], 1e-6)


# -- composed sampled Gaussians: bounds without the tight notion, tight values with it ------


def assert_tight(ours, truth, tolerance, *, slack):
    assert_close_above(ours, truth, tolerance if CONTOUR else math.inf, slack=slack)


@of_kind("tight_epsilon")
def test_tight_epsilon(entry):
    p = parameters(entry)
    ours = dp.account(run(p)).epsilon(p["delta"])
    assert_tight(ours, entry["value"], 1e-5, slack=1e-7)


@of_kind("tight_sigma")
def test_tight_noise_multiplier(entry):
    p = parameters(entry)
    ours = dp.noise_multiplier(
        epsilon=p["eps"], delta=p["delta"], sampling_probability=p["q"], steps=p["T"]
    )
    assert_tight(ours, entry["value"], 1e-5, slack=1e-8)


@of_kind("subsampled_gaussian_delta_T2")
def test_delta_of_two_releases(entry):
    p = parameters(entry)
    worse = max(float(entry["value"]["remove"]), float(entry["value"]["add"]))
    assert_tight(dp.account(run(p)).delta(p["eps"]), worse, 1e-5, slack=1e-12)


CUT_OFF = 1e-14
"""Mass that the reference's distributions moved to infinity: smaller deltas are not known."""


@of_kind("subsampled_gaussian_composition_pld")
def test_inside_the_brackets_of_a_privacy_loss_distribution(entry):
    curve = dp.account(run(parameters(entry)))
    for name, bracket in entry["value"].items():
        what, at, point = name.rpartition("_")
        if what not in ("eps_at_delta", "delta_at_eps") or not isinstance(bracket, dict):
            continue
        assert at
        low, high = bracket["optimistic"], bracket["pessimistic"]
        if low <= CUT_OFF:
            continue
        ours = (curve.epsilon if what == "eps_at_delta" else curve.delta)(float(point))
        assert ours >= low * (1 - ROUNDING)
        if CONTOUR:
            assert ours <= high * (1 + 1e-6)


# -- groups, and a formula that is not a bound ----------------------------------------------


@of_kind("group_privacy")
def test_group_privacy(entry):
    size = entry["params"]["k"]
    rho = dp.rho_from_epsilon(5, 1e-5, conversion="classic")
    step = dp.ZeroConcentratedDP(rho)
    together = dp.account(step, notion="zcdp").group(size)
    assert together.rho == pytest.approx(float(entry["value"]["all_same_batch"]), rel=1e-11)
    apart = dp.account(dp.repeat(step, size), notion="zcdp")
    assert apart.rho == pytest.approx(float(entry["value"]["all_distinct_batches"]), rel=1e-11)


@of_kind("paper_eq_rdp_value_INVALID")
def test_printed_divergence_is_not_a_bound(entry):
    p = parameters(entry)
    printed = printed_subsampling_formula_not_a_bound(int(p["alpha"]), p["sigma"], p["q"])
    assert printed == pytest.approx(float(entry["value"]["paper"]), rel=1e-12)
    ours = dp.account(run(p), notion="rdp").divergence(p["alpha"])
    assert_close_above(ours, entry["value"]["exact"], 1e-10)
    assert (printed < ours) == entry["value"]["understates"]


@of_kind("paper_eq_amplification_INVALID")
def test_noise_from_the_printed_formula_is_far_too_small(entry):
    p, value = parameters(entry), entry["value"]
    sigma, order = float(value["sigma_paper"]), value["alpha_used"]
    printed = printed_subsampling_formula_not_a_bound(order, sigma, p["q"])
    claimed = printed + math.log(1 / p["delta"]) / (order - 1)
    assert claimed == pytest.approx(p["claimed_eps"], rel=1e-9)

    p["sigma"] = sigma
    curve = dp.account(run(p))
    # the reference's sigma has more digits than a float
    assert_close_above(curve.epsilon(p["delta"]), value["true_eps_closed_form"], 1e-8, slack=1e-13)
    assert curve.epsilon(p["delta"]) > 1.5 * p["claimed_eps"]
    assert curve.delta(p["claimed_eps"]) == pytest.approx(
        float(value["true_delta_at_claimed_eps"]), rel=1e-8
    )


OTHER_JOBS = {"sqrt_toeplitz", "dpsvd_sensitivity"}
"""Kinds that have no function here: running sums, feature matrices."""


def test_every_kind_is_compared():
    asked = {
        argument.values[0]["kind"]
        for test in globals().values()
        for mark in getattr(test, "pytestmark", [])
        for argument in mark.args[1]
    }
    assert asked | OTHER_JOBS == {entry["kind"] for entry in ENTRIES}
