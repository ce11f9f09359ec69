"""User-level privacy: group privacy, the printed clipping, and a lifetime cap."""

import privacy as dp
from bandits.algorithms.baselines import AdaPrivateGroup, AdaPrivateTS, AdaPrivateUser
from bandits.algorithms.named import PrivateUCB
from bandits.experiments import runs
from bandits.experiments.tables import Row, Setup, Table, spent
from bandits.offline.environments import Synthetic

_RELATIONS = (dp.NeighboringRelation.REPLACE_SPECIAL, dp.NeighboringRelation.REPLACE_ONE)


def table(setup: Setup) -> Table:
    """Return utility and true user-level epsilon for k rounds per user."""
    rows: list[Row] = []
    for epsilon in (5.0,) if setup.quick else (1.0, 5.0):
        for rounds_per_user in (1, 5, 10, 20):
            rows += _rows(setup, epsilon, rounds_per_user)
    choices = (
        (
            "Round t belongs to user t mod U, U = T / k: a user's k rounds lie in k different "
            "batches, or in all batches if there are fewer."
        ),
        "Privacy unit: all rewards of a user, zeroed (REPLACE_SPECIAL) unless stated; B = 300.",
        (
            "naive: group privacy for k rounds. printed clip: a user's batch sum is clipped to "
            "C = 1, and sigma is that of one batch. The claim omits the composition over the m "
            "batches of a user."
        ),
        (
            "lifetime: one cap C = 1 over all batches (root of the sum of squares), exact noise. "
            "centered: C = min(1, sqrt(k) / 2), the largest sum of k centered rewards in k "
            "batches."
        ),
        (
            "ours, per round: PrivateUCB, which protects a round; its epsilon for a user is that of"
            " a group of k rounds."
        ),
    )
    return Table("user-level", "Privacy of all rewards of a user", choices, tuple(rows))


def _rows(setup: Setup, epsilon: float, k: int) -> list[Row]:
    zeroed = {"relation": "REPLACE_SPECIAL"}
    options = runs.private(setup, epsilon) | zeroed
    one = AdaPrivateTS(**options)
    met = min(k, one.batches)
    # The printed clipping equals a lifetime cap of sqrt(m) at its true epsilon.
    true = {
        relation: dp.account(
            dp.Gaussian(one.noise_multiplier / met**0.5), relation=relation
        ).epsilon(runs.DELTA)
        for relation in _RELATIONS
    }
    printed = options | {"epsilon": true[_RELATIONS[0]]}
    algorithms = runs.baseline(setup) | {
        "naive group": AdaPrivateGroup(rounds_per_user=k, calibration="exact", **options),
        "printed clip": AdaPrivateUser(cap=met**0.5, per_batch=1.0, calibration="exact", **printed),
        "lifetime cap": AdaPrivateUser(cap=1.0, calibration="exact", **options),
        "lifetime cap, centered, v=0.1": AdaPrivateUser(
            cap=min(1.0, k**0.5 / 2), calibration="exact", center=0.5, scale=0.1, **options
        ),
        "PrivateUCB (ours), per round": PrivateUCB(**options),
    }
    played = runs.run(setup, algorithms, Synthetic(users=max(setup.rounds // k, 1)))
    setting = f"user epsilon={epsilon:g}, k={k}"
    rows: list[Row] = []
    for name, algorithm in algorithms.items():
        if name == runs.BASELINE:
            continue
        found = algorithm.guarantee(runs.DELTA).epsilon
        if isinstance(algorithm, PrivateUCB):
            found = _group(algorithm, k)
        rows += runs.percent_and_regret(
            setup, played, name, setting=setting, claimed_epsilon=epsilon, true_epsilon=found
        )
    for relation, found in true.items():
        measure = f"claim: a user's epsilon is the claimed one, {relation}"
        verdict = spent(epsilon, found)
        rows.append(
            Row(setting, "printed clip", measure, found, 0.0, epsilon, epsilon, found, verdict)
        )
    return rows


def _group(algorithm: PrivateUCB, k: int) -> float:
    """Return the epsilon for k rounds of a user, with k times the mu of Gaussian DP."""
    relation = dp.NeighboringRelation(algorithm.relation)
    return dp.account(algorithm.mechanism, relation=relation).group(k).epsilon(runs.DELTA)
