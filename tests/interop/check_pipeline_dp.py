"""Our budget accountant in PipelineDP, on its local backend."""

import math

import pipeline_dp as pdp
import pytest
from pages import run_page
from pipeline_dp.aggregate_params import MechanismType

import privacy as dp
from privacy.interop.pipeline_dp import CalibratedBudgetAccountant

ROWS = [(user, partition, user % 5) for user in range(2000) for partition in range(user % 3 + 1)]
EXTRACTORS = pdp.DataExtractors(
    privacy_id_extractor=lambda row: row[0],
    partition_extractor=lambda row: row[1],
    value_extractor=lambda row: row[2],
)
KINDS = [pdp.NoiseKind.GAUSSIAN, pdp.NoiseKind.LAPLACE]


def aggregate(budget, kind=pdp.NoiseKind.GAUSSIAN, public=(0, 1, 2), times=1, metrics=()):
    """Return the results of `times` aggregations, each a dict by partition."""
    engine = pdp.DPEngine(budget, pdp.LocalBackend())
    params = pdp.AggregateParams(
        noise_kind=kind,
        metrics=[*(metrics or (pdp.Metrics.COUNT, pdp.Metrics.SUM))],
        max_partitions_contributed=3,
        max_contributions_per_partition=1,
        min_value=0,
        max_value=4,
    )
    results = [engine.aggregate(ROWS, params, EXTRACTORS, public) for _ in range(times)]
    budget.compute_budgets()
    return [dict(list(result)) for result in results]


@pytest.mark.parametrize("kind", KINDS)
def test_several_aggregations_get_less_noise_in_one_budget(kind):
    ours, theirs = CalibratedBudgetAccountant(1.0, 1e-6), pdp.NaiveBudgetAccountant(1.0, 1e-6)
    results = aggregate(ours, kind, times=10)
    aggregate(theirs, kind, times=10)
    assert len(results) == 10
    assert results[0][0].count == pytest.approx(2000, abs=300)
    assert 0.999 < ours.curve().epsilon(1e-6) <= 1
    noise = ours.mechanism_specs[0].noise_standard_deviation
    spec = theirs.mechanism_specs[0]
    before = math.sqrt(2) / spec.eps
    if kind is pdp.NoiseKind.GAUSSIAN:
        before = dp.noise_multiplier(epsilon=spec.eps, delta=spec.delta)
    print(f"{kind}: noise / sensitivity {noise:.2f}, before {before:.2f}")
    assert noise < (0.3 if kind is pdp.NoiseKind.GAUSSIAN else 0.9) * before


def test_noise_is_at_least_that_of_the_budget():
    ours = CalibratedBudgetAccountant(1.0, 1e-6)
    aggregate(ours, times=2)
    noise = [spec.noise_standard_deviation for spec in ours.mechanism_specs]
    assert len(noise) == 4
    assert noise == [noise[0]] * 4
    exact = dp.noise_multiplier(epsilon=1.0, delta=1e-6, steps=4)
    assert exact * (1 - 1e-12) <= noise[0] <= exact * (1 + 1e-9)


def test_the_noise_that_is_drawn_is_that_noise():
    ours = CalibratedBudgetAccountant(1.0, 1e-6)
    spec = ours.request_budget(MechanismType.GAUSSIAN, weight=1)
    ours.compute_budgets()
    from pipeline_dp import dp_computations

    for kind in ("l2", "l0_linf"):
        size = {"l2": 2.0} if kind == "l2" else {"l0": 4, "linf": 1.0}
        drawn = dp_computations.create_additive_mechanism(
            spec, dp_computations.Sensitivities(**size)
        )
        assert drawn.std == pytest.approx(2 * spec.noise_standard_deviation, rel=1e-12)


@pytest.mark.parametrize("strategy", pdp.PartitionSelectionStrategy)
def test_private_partitions_are_part_of_the_budget(strategy):
    if strategy is pdp.PartitionSelectionStrategy.WEIGHTED_GAUSSIAN_THRESHOLDING:
        pytest.skip("only for select_partitions")
    ours = CalibratedBudgetAccountant(1.0, 1e-6)
    engine = pdp.DPEngine(ours, pdp.LocalBackend())
    params = pdp.AggregateParams(
        noise_kind=pdp.NoiseKind.GAUSSIAN,
        metrics=[pdp.Metrics.COUNT],
        max_partitions_contributed=3,
        max_contributions_per_partition=1,
        partition_selection_strategy=strategy,
    )
    result = engine.aggregate(ROWS, params, EXTRACTORS)
    ours.compute_budgets()
    assert dict(list(result)).keys() == {0, 1, 2}
    claims = [spec for spec in ours.mechanism_specs if not spec.standard_deviation_is_set]
    assert [spec.delta for spec in claims] == [5e-7]
    assert dp.ApproximateDP(claims[0].eps, 5e-7) in ours.mechanism.parts
    assert 0.99 < ours.curve().epsilon(1e-6) <= 1


def test_weights_and_scopes_scale_the_noise():
    ours = CalibratedBudgetAccountant(2.0, 0)
    light = ours.request_budget(MechanismType.LAPLACE, weight=1)
    with ours.scope(weight=3):
        heavy = ours.request_budget(MechanismType.LAPLACE, weight=7, count=2)
    ours.compute_budgets()
    assert light.noise_standard_deviation == pytest.approx(3 * heavy.noise_standard_deviation)
    scales = [spec.noise_standard_deviation / math.sqrt(2) for spec in (light, heavy)]
    assert 1 / scales[0] + 2 / scales[1] == pytest.approx(2.0, rel=1e-4)
    assert ours.curve().epsilon(0) <= 2


def test_unsupported_requests_are_refused():
    with pytest.raises(ValueError, match="delta"):
        CalibratedBudgetAccountant(1.0, 0).request_budget(MechanismType.GAUSSIAN)
    ours = CalibratedBudgetAccountant(1.0, 1e-6)
    with pytest.raises(NotImplementedError, match="noise"):
        ours.request_budget(MechanismType.GAUSSIAN, noise_standard_deviation=1.0)
    with pytest.raises(ValueError, match=r"sensitivity=0\.5 to be 1"):
        ours.request_budget(MechanismType.GAUSSIAN, sensitivity=0.5)
    ours.compute_budgets()
    with pytest.raises(RuntimeError, match="before"):
        ours.request_budget(MechanismType.GAUSSIAN)
    with pytest.raises(NotImplementedError, match="Variance"):
        aggregate(CalibratedBudgetAccountant(1.0, 1e-6), metrics=[pdp.Metrics.VARIANCE])


def test_a_pipeline_of_beam_takes_the_same_budget(tmp_path):
    beam = pytest.importorskip("apache_beam")
    ours, out = CalibratedBudgetAccountant(1.0, 1e-6), tmp_path / "out"
    params = pdp.AggregateParams(
        noise_kind=pdp.NoiseKind.GAUSSIAN,
        metrics=[pdp.Metrics.COUNT],
        max_partitions_contributed=3,
        max_contributions_per_partition=1,
    )
    with beam.Pipeline() as pipeline:
        rows = pipeline | beam.Create(ROWS)
        engine = pdp.DPEngine(ours, pdp.BeamBackend())
        results = engine.aggregate(rows, params, EXTRACTORS, [0, 1, 2])
        ours.compute_budgets()
        _ = results | beam.Map(lambda row: round(row[1].count)) | beam.io.WriteToText(str(out))
    counts = sorted(int(x) for part in tmp_path.iterdir() for x in part.read_text().split())
    assert counts == pytest.approx([666, 1333, 2000], abs=100)
    assert 0.999 < ours.curve().epsilon(1e-6) <= 1


def test_the_page():
    run_page("pipeline-dp.md", pipeline=lambda budget: aggregate(budget, times=10))
