"""Central baselines built from the same components, some under two accounting methods."""

from dataclasses import replace

import privacy as dp
from bandits.algorithms.algorithm import Algorithm
from bandits.algorithms.baselines import AdaPrivateUCB
from bandits.algorithms.bases import Private
from bandits.algorithms.contexts import PrivateContexts
from bandits.algorithms.elimination import CoreSetElimination
from bandits.experiments import runs
from bandits.experiments.rivals import ThetaPerturbed
from bandits.experiments.tables import Row, Setup, Table, spent

_LITERAL = "zCDP-Episodic, literal (invalid)"
_PUBLISHED = "JDP-LinUCB, published constants"
_BATCHED = "Batched-Aggregation, rho/K"
_CORE_SET = "CoreSet-Elimination, rho/P"
_PAPER = {
    _BATCHED: {0.5: 83.3, 1.0: 84.9, 2.0: 87.5, 5.0: 92.1},
    _CORE_SET: {0.5: 86.9, 1.0: 91.1, 2.0: 95.2, 5.0: 98.2},
}


def table(setup: Setup) -> Table:
    """Return the reward in percent of LinUCB's and the regret, by epsilon."""
    rows: list[Row] = []
    for epsilon in setup.epsilons:
        rows += _rows(setup, epsilon)
    choices = (
        (
            "JDP-LinUCB: sums of x x' and r x under a binary tree, batches of 100, one joint "
            "Gaussian mechanism, joint DP of a round under REPLACE_SPECIAL; ridge 10 instead of the"
            " published shift."
        ),
        (
            "The same with published constants (Shariff and Sheffet 2018, Gaussian noise): sigma "
            "of a node for m = 1 + ceil(log2 K) levels over K leaves. Each leaf is a batch; theirs "
            "is a round, which would need more noise. Their shift 2 Upsilon, for alpha = 0.05, is "
            "added once to each released matrix instead of a ridge. The width is 1 as in every row."
        ),
        "A and b noise: the same with independent noise, batches of 300.",
        (
            "RarelySwitching / AdaC-OFUL: a release when det A has grown by the factor 2 / 1.5, "
            "with independent noise of rho per release; 12 replicates."
        ),
        (
            "Batched-Aggregation: batches of 300 and UCB. 'rho/K' splits the budget over the K "
            "batches, as the preprint does for this baseline and the next. 'disjoint' uses the "
            "whole budget in each batch, because a reward enters one batch: this is AdaPrivate-UCB."
        ),
        (
            "CoreSet-Elimination: phases of 300, 600, 1,200, ... rounds, each estimated from its "
            "own rewards only, with one release each. An arm is eliminated permanently if its upper"
            " bound (1 standard deviation of rewards and noise) is below the lower bound of an arm "
            "that the phase played. Of the remaining ones of the 5 candidates it plays the one "
            "with the largest x'A^-1 x (Wynn's step to the D- and G-optimal design), and the best "
            "estimate if none remains. 'rho/P' splits the budget over the P phases as the preprint "
            "does. 'disjoint' uses the whole budget in each phase, because a reward enters one "
            "phase."
        ),
        (
            "DGS-LinUCB, as in the preprint: theta with noise |A^-1| / sqrt(2 rho / T) in each "
            "round. zCDP-Episodic: theta with noise at the ends of episodes of 100, 200, 400, ... "
            "rounds. literal: estimated from all rounds, with rho per episode as if episodes were "
            "disjoint. own data: estimated from the episode only, so that they are disjoint."
        ),
    )
    return Table("baselines", "Central baselines", choices, tuple(rows))


def _rows(setup: Setup, epsilon: float) -> list[Row]:
    options = runs.private(setup, epsilon)
    tree = options | {"noise": "binary_tree", "batch": 100}
    whole = AdaPrivateUCB(**options)
    phases = CoreSetElimination(**options, calibration="printed")
    published = PrivateContexts(**tree, calibration="published")
    algorithms = runs.baseline(setup) | runs.seed_and_ours(setup, epsilon)
    algorithms |= {
        "JDP-LinUCB, tree": PrivateContexts(**tree),
        _PUBLISHED: published,
        "A and b noise": PrivateContexts(**options, noise="independent"),
        "DGS-LinUCB": ThetaPerturbed(first=1, ratio=1.0, split=True, **options),
        _LITERAL: ThetaPerturbed(**options),
        "zCDP-Episodic, own data": ThetaPerturbed(own_data=True, **options),
        "Batched-Aggregation, disjoint": whole,
        _BATCHED: _split(whole),
        "CoreSet-Elimination, disjoint": phases,
        _CORE_SET: _split(phases),
    }
    setting = f"epsilon={epsilon:g}"
    papers = {name: numbers[epsilon] for name, numbers in _PAPER.items()}
    played = runs.run(setup, algorithms)
    rows = runs.all_rows(setup, played, algorithms, epsilon, setting=setting, papers=papers)
    for name, algorithm, claim in (
        (_LITERAL, algorithms[_LITERAL], "claim: episodes compose in parallel"),
        (_PUBLISHED, published, "claim: epsilon, REPLACE_SPECIAL"),
        (_PUBLISHED, replace(published, relation="REPLACE_ONE"), "claim: epsilon, REPLACE_ONE"),
    ):
        true = algorithm.guarantee(runs.DELTA).epsilon
        verdict = spent(epsilon, true)
        rows.append(Row(setting, name, claim, true, 0.0, epsilon, epsilon, true, verdict))
    switching = runs.baseline(setup) | {
        "RarelySwitching": AdaPrivateUCB(growth=1.0, **options),
        "AdaC-OFUL": AdaPrivateUCB(growth=0.5, **options),
    }
    few = runs.run(setup, switching, replicates=2 if setup.quick else 12)
    return rows + runs.all_rows(setup, few, switching, epsilon, setting=setting)


def _split(algorithm: Private) -> Algorithm:
    """Return an algorithm with rho / K per release, under the printed conversion."""
    delta = algorithm.delta
    rho = dp.rho_from_epsilon(algorithm.epsilon, delta, conversion="classic") / algorithm.batches
    return replace(algorithm, epsilon=dp.epsilon_from_rho(rho, delta, conversion="classic"))
