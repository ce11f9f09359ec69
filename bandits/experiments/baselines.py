"""Central baselines, as assemblies of the same parts, each under both accountings that are used."""

import privacy as dp
from bandits.baselines import AdaPrivateUCB, PrivateContexts
from bandits.experiments import runs
from bandits.experiments.rivals import ThetaPerturbed
from bandits.experiments.tables import Row, Setup, Table, spent

_LITERAL = "zCDP-Episodic, literal (invalid)"
_BATCHED = {0.5: 83.3, 1.0: 84.9, 2.0: 87.5, 5.0: 92.1}


def table(setup: Setup) -> Table:
    """Return percent of LinUCB's reward and regret, by epsilon."""
    rows: list[Row] = []
    for epsilon in setup.epsilons:
        rows += _rows(setup, epsilon)
    choices = (
        (
            "JDP-LinUCB: sums of x x' and r x under a binary tree, batches of 100, one joint "
            "Gaussian, joint DP of a round under REPLACE_SPECIAL; ridge 10 instead of the published"
            " shift."
        ),
        "A and b noise: the same with independent noise, batches of 300.",
        (
            "RarelySwitching / AdaC-OFUL: a release when det A has grown by the factor 2 / 1.5, "
            "noise of rho for each release, independent; 12 worlds."
        ),
        (
            "Batched-Aggregation: batches of 300 and UCB; 'rho/K' splits the budget over the K "
            "batches as the preprint does for this baseline alone; 'disjoint' gives each batch all "
            "of it, since a reward enters one batch: that is AdaPrivate-UCB."
        ),
        (
            "DGS-LinUCB, as the preprint has it: theta with noise |A^-1| / sqrt(2 rho / T) in each "
            "round. zCDP-Episodic: theta with noise at the ends of episodes of 100, 200, 400, ... "
            "rounds; literal: from all rounds, with rho for each episode as if they were disjoint; "
            "own data: from the episode alone, where they are."
        ),
        "Not assembled: CoreSet-Elimination, and the published constants of JDP-LinUCB.",
    )
    return Table("baselines", "Central baselines", choices, tuple(rows))


def _rows(setup: Setup, epsilon: float) -> list[Row]:
    options = runs.private(setup, epsilon)
    contexts = options | {"calibration": "exact"}
    whole = AdaPrivateUCB(**options)
    # rho / K for each batch, under the printed conversion
    rho = dp.rho_from_epsilon(epsilon, runs.DELTA, conversion="classic") / whole.batches
    split = dp.epsilon_from_rho(rho, runs.DELTA, conversion="classic")
    algorithms = runs.baseline(setup) | runs.seed_and_ours(setup, epsilon)
    algorithms |= {
        "JDP-LinUCB, tree": PrivateContexts(noise="binary_tree", batch=100, **contexts),
        "A and b noise": PrivateContexts(noise="independent", **contexts),
        "DGS-LinUCB": ThetaPerturbed(first=1, ratio=1.0, split=True, **options),
        _LITERAL: ThetaPerturbed(**options),
        "zCDP-Episodic, own data": ThetaPerturbed(own_data=True, **options),
        "Batched-Aggregation, disjoint": whole,
        "Batched-Aggregation, rho/K": AdaPrivateUCB(**options | {"epsilon": split}),
    }
    setting = f"epsilon={epsilon:g}"
    papers = {"Batched-Aggregation, rho/K": _BATCHED[epsilon]}
    played = runs.run(setup, algorithms)
    rows = runs.all_rows(setup, played, algorithms, epsilon, setting=setting, papers=papers)
    true = algorithms[_LITERAL].guarantee(runs.DELTA).epsilon
    measure = "claim: episodes compose in parallel"
    verdict = spent(epsilon, true)
    rows.append(Row(setting, _LITERAL, measure, true, 0.0, epsilon, epsilon, true, verdict))
    switching = runs.baseline(setup) | {
        "RarelySwitching": AdaPrivateUCB(growth=1.0, **options),
        "AdaC-OFUL": AdaPrivateUCB(growth=0.5, **options),
    }
    few = runs.run(setup, switching, replicates=2 if setup.quick else 12)
    return rows + runs.all_rows(setup, few, switching, epsilon, setting=setting)
