"""Every event of dp-accounting is expressible, and costs no more than there."""

import numpy as np
import pytest
from dp_accounting import dp_event as events
from dp_accounting.pld import privacy_loss_distribution as losses

import privacy as dp
from tests.crosscheck.dp_events import NO_MEANING, OURS, excess, ours, their_epsilon


def test_every_event_is_listed():
    every = {
        kind
        for kind in vars(events).values()
        if isinstance(kind, type)
        and issubclass(kind, events.DpEvent)
        and kind is not events.DpEvent
    }
    assert every == OURS.keys() | NO_MEANING.keys()
    assert not OURS.keys() & NO_MEANING.keys()


@pytest.mark.parametrize("seed", range(30))
def test_no_epsilon_is_above_theirs(seed):
    rng = np.random.default_rng(seed)
    assert excess(rng)[0] <= 1e-6


@pytest.mark.parametrize(
    "event",
    [
        events.SampledWithoutReplacementDpEvent(100, 3, events.GaussianDpEvent(2.0)),
        events.SampledWithReplacementDpEvent(100, 3, events.GaussianDpEvent(2.0)),
        events.RepeatAndSelectDpEvent(events.GaussianDpEvent(4.0), 10, 1),
        events.RepeatAndSelectDpEvent(events.GaussianDpEvent(4.0), 10, np.inf),
        events.TruncatedSubsampledGaussianDpEvent(100, 0.05, 10, 2.0),
        events.NoOpDpEvent(),
    ],
)
def test_samplers_and_selection_are_expressible(event):
    relation = dp.NeighboringRelation.REPLACE_ONE
    sampled = isinstance(
        event, events.SampledWithoutReplacementDpEvent | events.SampledWithReplacementDpEvent
    )
    found = dp.account(ours(event), **({"relation": relation} if sampled else {}))
    assert 0 <= found.epsilon(1e-5) < 10


def test_their_accountant_ignores_the_count_of_responses():
    """dp-accounting 0.6.0; if this fails, count responses in `random_case`."""
    once = events.RandomizedResponseDpEvent(0.5, 3)
    many = events.SelfComposedDpEvent(once, 3)
    listed = events.ComposedDpEvent([once] * 3)
    ignored, counted = (their_epsilon(event, "REPLACE_ONE") for event in (many, listed))
    assert ignored == pytest.approx(their_epsilon(once, "REPLACE_ONE"))
    assert ignored < 0.6 * counted
    found = [dp.account(ours(event)).epsilon(1e-5) for event in (many, listed)]
    assert found[0] == found[1] <= counted * (1 + 1e-6)


def test_a_mixture_of_gaussians_by_its_distribution_functions():
    event = events.MixtureOfGaussiansDpEvent(2.0, [0.5, 1.0], [0.5, 0.5])
    low, high = (
        losses.from_mixture_gaussian_mechanism(
            event.standard_deviation,
            event.sensitivities,
            event.sampling_probs,
            pessimistic_estimate=up,
            use_connect_dots=up,
            value_discretization_interval=0.02,
        ).get_epsilon_for_delta(1e-5)
        for up in (False, True)
    )
    found = dp.account(ours(event)).epsilon(1e-5)
    assert low <= found <= high * (1 + 1e-3)
