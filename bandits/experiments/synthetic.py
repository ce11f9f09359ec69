"""Tables of the preprint's synthetic worlds: each lists algorithms, worlds and differences."""

import math
from dataclasses import replace
from operator import attrgetter
from typing import Any

import privacy as dp
from bandits.algorithms.algorithm import Algorithm
from bandits.algorithms.baselines import (
    AdaPrivateAdaptive,
    AdaPrivateAmp,
    AdaPrivateForced,
    AdaPrivateGroup,
    AdaPrivateTS,
    AdaPrivateTuned,
    AdaPrivateUCB,
    AdaPrivateUser,
)
from bandits.algorithms.bases import Private
from bandits.algorithms.contexts import PrivateContexts
from bandits.algorithms.elimination import CoreSetElimination
from bandits.algorithms.named import LinTS, LinUCB, PrivateThompson, PrivateUCB
from bandits.experiments import runs
from bandits.experiments.printed_formula import PrintedAmp, printed_subsampling_formula_not_a_bound
from bandits.experiments.rivals import ThetaPerturbed
from bandits.experiments.runs import DELTA, OURS, compared, private, seed_and_ours
from bandits.experiments.tables import Row, Setup
from bandits.offline.environments import RankDeficient, Synthetic

_TS, _UCB = "AdaPrivate-TS", "AdaPrivate-UCB"
_FAIR: dict[str, Any] = {"center": 0.5, "calibration": "exact"}
_value = attrgetter("ours")


def ts_vs_ucb(setup: Setup) -> list[Row]:
    """Compare Thompson sampling with upper confidence bounds, with the same noise."""
    rows: list[Row] = []
    adaptive, tuned = "AdaPrivate-Adaptive", "AdaPrivate-Tuned"
    gains = [(_TS, _UCB), ("fair TS", "fair UCB"), (adaptive, _UCB), (tuned, _UCB)]
    for epsilon in setup.epsilons if setup.quick else (0.1, *setup.epsilons):
        options = private(setup, epsilon)
        algorithms = seed_and_ours(setup, epsilon) | {
            _UCB: AdaPrivateUCB(**options),
            "fair TS": AdaPrivateTS(scale=0.1, **options, **_FAIR),
            "fair UCB": AdaPrivateUCB(width=0.1, **options, **_FAIR),
            adaptive: AdaPrivateAdaptive(**options),
            tuned: AdaPrivateTuned(**options),
        }
        setting = f"epsilon={epsilon:g}"
        rows += compared(setup, setting, algorithms, epsilon=epsilon, gains=gains)[1]
    for epsilon in setup.epsilons:
        algorithms = seed_and_ours(setup, epsilon)
        algorithms[_UCB] = AdaPrivateUCB(**private(setup, epsilon))
        world, setting = Synthetic(link="linear"), f"linear, epsilon={epsilon:g}"
        rows += compared(setup, setting, algorithms, world, epsilon=epsilon, gains=gains[:1])[1]
    return rows


def amplification(setup: Setup) -> list[Row]:
    """Sample batches: the true epsilon of the printed bound, and utility."""
    rows: list[Row] = []
    for epsilon in setup.epsilons:
        options = private(setup, epsilon)
        algorithms = seed_and_ours(setup, epsilon) | {
            _UCB: AdaPrivateUCB(**options),
            "TS-Adaptive": AdaPrivateAdaptive(**options),
            "no sampling, exact": AdaPrivateTS(calibration="exact", **options),
        }
        gains = [("TS-Adaptive", _UCB), (_TS, _UCB)]
        for q in (0.1, 0.3, 0.5, 0.7):
            printed, right = f"Amp printed, q={q:g}", f"Amp right, q={q:g}"
            algorithms[printed] = PrintedAmp(sampling_probability=q, **options)
            gains += [(printed, _UCB), (printed, _TS)]
            if q in (0.3, 0.5):
                algorithms[right] = AdaPrivateAmp(sampling_probability=q, **options)
                gains.append((right, "no sampling, exact"))
        setting = f"epsilon={epsilon:g}"
        found = compared(setup, setting, algorithms, epsilon=epsilon, gains=gains)[1]
        rows += found
        own = [row for row in found if row.measure == runs.OF_BASELINE and "q=" in row.subject]
        for row in own:
            spread = row.error * math.sqrt(row.replicates)
            error = spread / math.sqrt(2 * (row.replicates - 1))
            measure = "standard deviation over worlds"
            rows.append(replace(row, measure=measure, ours=spread, error=error))
        for kind in ("Amp printed", "Amp right"):
            best = max((row for row in own if kind in row.subject), key=_value)
            q, count = float(best.subject.partition("q=")[2]), best.replicates
            rows.append(Row(setting, kind, "best q", q, 0, count))
    rows += _formula()
    return rows


def _formula() -> list[Row]:
    """Return properties of the printed formula, without simulation."""
    options = private(Setup(), 1.0)
    full = AdaPrivateTS(calibration="exact", **options).noise_multiplier
    rows = []
    for q in (0.1, 0.3, 0.5, 0.7):
        right = AdaPrivateAmp(sampling_probability=q, **options).noise_multiplier
        measure = "noise of the right rescaled sum over that without sampling"
        rows.append(Row(f"epsilon=1, q={q:g}", "Amp right", measure, right / q / full))
    name = "printed formula"
    for epsilon in (1.0, 5.0):
        options = private(Setup(), epsilon, sampling_probability=0.3)
        sigma = PrintedAmp(**options).noise_multiplier
        claimed = {
            order: printed_subsampling_formula_not_a_bound(order, sigma, 0.3)
            - math.log(DELTA) / (order - 1)
            for order in range(2, 65)
        }
        used = min((2, 3, 4, 5, 6, 8, 16, 32, 64), key=claimed.__getitem__)
        fewer, sparse = min(claimed.values()), claimed[used]
        # the limit of log((1 + x)^a - a x) / (a - 1) at large orders is log(1 + x)
        limit = math.log1p(math.sqrt(2) * 0.3 / sigma)
        values = {
            "best of the printed orders": used,
            "% of the bound that orders up to 64 capture": 100 * limit / fewer,
            "% less epsilon with all orders up to 64": 100 * (1 - fewer / sparse),
            "% less epsilon with all orders": 100 * (1 - limit / sparse),
        }
        setting = f"epsilon={epsilon:g}, q=0.3"
        rows += [Row(setting, name, measure, value) for measure, value in values.items()]
    # log(1 + q^2 (exp(1 / s^2) - 1)) is the exact divergence of order 2
    q, sigma = 1e-3, 100.0
    exact = math.log1p(q**2 * math.expm1(sigma**-2)) / 2 / (q**2 / (2 * sigma**2))
    rows.append(Row("q=0.001, sigma=100", "exact divergence", "over q^2 rho", exact))
    x = math.sqrt(2) * 0.5 / 1.05
    shares = [
        1 - math.comb(a, 2) * x**2 / sum(math.comb(a, j) * x**j for j in range(2, a + 1))
        for a in range(3, 65)
    ]
    measure = "least % of terms beyond the second, orders 3 to 64"
    rows.append(Row("q=0.5, sigma=1.05", name, measure, 100 * min(shares)))
    return rows


def user_level(setup: Setup) -> list[Row]:
    """Compare group privacy, the printed clipping by layout, and a lifetime cap."""
    rows: list[Row] = []
    for k in (1, 5, 10, 20):
        rows += _users(setup, 5.0, k)
        for square in sorted({5, k}):
            rows += _layouts(5.0, k, math.sqrt(square))
    return rows


def _users(setup: Setup, epsilon: float, k: int) -> list[Row]:
    options = private(setup, epsilon, relation="REPLACE_SPECIAL")
    root = math.sqrt(k)
    naive = AdaPrivateGroup(rounds_per_user=k, calibration="printed", **options)
    clipped = AdaPrivateUser(cap=root, calibration="printed", **options)
    true = options | {"epsilon": clipped.guarantee(DELTA).epsilon}
    # a group of k rounds: k times the mu of Gaussian differential privacy
    sigma = k * dp.noise_multiplier(epsilon=true["epsilon"], delta=DELTA)
    per_round = true | {"epsilon": dp.account(dp.Gaussian(sigma)).epsilon(DELTA)}
    ours, group_of_k = PrivateUCB(**per_round), f"{OURS}, group of k, true epsilon of the clip"
    algorithms: dict[str, Algorithm] = {
        "naive group": naive,
        "printed clip": clipped,
        "lifetime cap": AdaPrivateUser(cap=root, calibration="exact", **options),
        "lifetime cap, centered, v=0.1, true epsilon of the clip": AdaPrivateUser(
            cap=root / 2, calibration="exact", center=0.5, scale=0.1, **true
        ),
        group_of_k: ours,
    }
    setting = f"user epsilon={epsilon:g}, k={k}"
    world = Synthetic(users=max(setup.rounds // k, 1))
    gains = [(name, "naive group") for name in algorithms if name != "naive group"]
    gains += [(name, "printed clip") for name in list(algorithms)[3:]]
    rows = compared(setup, setting, algorithms, world, epsilon=epsilon, gains=gains)[1]
    group = dp.account(ours.mechanism, relation=dp.NeighboringRelation(ours.relation)).group(k)
    for place, row in enumerate(rows):
        if row.subject == group_of_k:
            rows[place] = replace(row, true_epsilon=group.epsilon(DELTA))
    rho = 1 / (2 * (naive.noise_multiplier * naive.clip_norm) ** 2)
    return [*rows, Row(setting, "naive group", "rho", rho)]


def _layouts(epsilon: float, k: int, cap: float) -> list[Row]:
    rho = dp.rho_from_epsilon(epsilon, DELTA, conversion="classic")
    noise = cap * dp.noise_multiplier_from_rho(rho)
    rows = []
    layouts: dict[str, tuple[float, ...]] = {
        "one round a batch": (1,) * k,
        "batches of 3": (3,) * (k // 3) + (k % 3,),
        "one batch": (k,),
        "ten full batches, rounds not bounded": (math.inf,) * 10,
    }
    for layout, counts in layouts.items():
        for relation, most in (("REPLACE_SPECIAL", cap), ("REPLACE_ONE", 2 * cap)):
            moved = math.sqrt(sum(min(most, count) ** 2 for count in counts))
            # the release with the user's rewards against that without, or with other ones
            true = dp.account(dp.Gaussian(noise / moved)).epsilon(DELTA)
            setting = f"user epsilon={epsilon:g}, k={k}, C=sqrt({cap**2:.0f}), {relation}"
            subject = f"printed clip, {layout}"
            rows.append(Row(setting, subject, "true epsilon", true, 0, 0, epsilon, true))
    return rows


def baselines(setup: Setup) -> list[Row]:
    """Run baselines built from the same components, some under two accounting methods."""
    rows: list[Row] = []
    for epsilon in setup.epsilons:
        options = private(setup, epsilon)
        tree = options | {"noise": "binary_tree", "batch": 100}
        whole = AdaPrivateUCB(**options)
        phases = CoreSetElimination(**options, calibration="printed")
        published = PrivateContexts(**tree, calibration="published")
        batched, core = "Batched-Aggregation, rho/K", "CoreSet-Elimination, rho/P"
        algorithms = seed_and_ours(setup, epsilon) | {
            "JDP-LinUCB, tree": PrivateContexts(**tree),
            "JDP-LinUCB, published constants": published,
            "A and b noise": PrivateContexts(**options, noise="independent"),
            "DGS-LinUCB": ThetaPerturbed(first=1, ratio=1.0, split=True, **options),
            "zCDP-Episodic, literal (invalid)": ThetaPerturbed(**options),
            "zCDP-Episodic, own data": ThetaPerturbed(own_data=True, **options),
            "Batched-Aggregation, disjoint": whole,
            batched: _split(whole),
            "CoreSet-Elimination, disjoint": phases,
            core: _split(phases),
        }
        setting = f"epsilon={epsilon:g}"
        gains = [(_TS, core), (_TS, batched)]
        rows += compared(setup, setting, algorithms, epsilon=epsilon, gains=gains)[1]
        true = replace(published, relation="REPLACE_ONE").guarantee(DELTA).epsilon
        name, measure = "JDP-LinUCB, published constants", "true epsilon, REPLACE_ONE"
        rows.append(Row(setting, name, measure, true, 0, 0, epsilon, true))
        switching: dict[str, Algorithm] = {
            "RarelySwitching": AdaPrivateUCB(growth=1.0, **options),
            "AdaC-OFUL": AdaPrivateUCB(growth=0.5, **options),
        }
        few = 2 if setup.quick else 12
        _, both = compared(setup, setting, switching, epsilon=epsilon, replicates=few)
        rows += [row for row in both if row.subject in switching]
    return rows


def _split(algorithm: Private) -> Algorithm:
    delta = algorithm.delta
    rho = dp.rho_from_epsilon(algorithm.epsilon, delta, conversion="classic") / algorithm.batches
    return replace(algorithm, epsilon=dp.epsilon_from_rho(rho, delta, conversion="classic"))


def ablation(setup: Setup) -> list[Row]:
    """Run the preprint's ablation, and the changes from AdaPrivate-TS to PrivateUCB."""
    rows: list[Row] = []
    for epsilon in setup.epsilons:
        options = private(setup, epsilon)
        centered: dict[str, Any] = {"center": 0.5, "scale": 0.1}
        greedy: dict[str, Any] = {"center": 0.5, "width": 0.0}
        aware = greedy | {"estimator": "prefix", "noise": "column_normalized"}
        printed: dict[str, Algorithm] = {
            "A and b noise": PrivateContexts(
                **options, noise="independent", calibration="printed", ridge=1.0
            ),
            "+ b only": AdaPrivateUCB(**options),
            "+ Thompson sampling": AdaPrivateTS(**options),
            "+ amplification, q=0.5": PrintedAmp(sampling_probability=0.5, **options),
            "+ adaptive": PrintedAmp(sampling_probability=0.5, scale=1.5, decay=0.95, **options),
        }
        if epsilon != 1:  # keep only AdaPrivate-TS, from which the changes start
            printed = dict([list(printed.items())[2]])
        names = list(printed)
        algorithms = (
            printed
            | {
                "2 centered, v=0.1": AdaPrivateTS(**options, **centered),
                "3 exact sigma": AdaPrivateTS(scale=0.1, **options, **_FAIR),
                "4 correlated noise": AdaPrivateTS(
                    scale=0.1, noise="column_normalized", **options, **_FAIR
                ),
                "5 posterior knows the noise": PrivateUCB(first=300, ratio=1.0, **options, **aware),
                "6 growing batches": PrivateUCB(**options, **aware),
                "7 all releases, optimized noise": PrivateUCB(**options, **greedy),
                "PrivateThompson (ours)": PrivateThompson(**options),
            }
            | seed_and_ours(setup, epsilon)
        )
        gains = [*zip(names[1:], names, strict=False), (names[-1], names[0])][: 2 * len(names) - 2]
        setting = f"epsilon={epsilon:g}"
        rows += compared(setup, setting, algorithms, epsilon=epsilon, gains=gains)[1]
    return rows


def robustness(setup: Setup) -> list[Row]:
    """Run the preprint's grid searches, and ours, at epsilon = 1."""
    options = private(setup, 1.0)
    batches, scales, widths = (100, 300, 500, 1000), (0.5, 1.0, 1.5, 2.0), (0.1, 0.5, 1.0, 2.0)
    algorithms: dict[str, Algorithm] = {}
    algorithms |= {f"TS, B={b}": AdaPrivateTS(batch=b, **options) for b in (10, *batches)}
    algorithms |= {f"UCB, B={b}": AdaPrivateUCB(batch=b, **options) for b in batches}
    algorithms |= {f"TS, v={v:g}": AdaPrivateTS(scale=v, **options) for v in scales}
    algorithms |= {f"UCB, alpha={w:g}": AdaPrivateUCB(width=w, **options) for w in widths}
    grid = {
        f"v0={v:g}, gamma={decay:g}": AdaPrivateAdaptive(scale=v, decay=decay, **options)
        for v in (1.0, 1.5, 2.0)
        for decay in (0.9, 0.95, 0.99)
    }
    algorithms |= grid | {
        f"zCDP-Episodic, own data, c={c}": ThetaPerturbed(own_data=True, ratio=1.0 + c, **options)
        for c in (1, 2, 4)
    }
    algorithms |= seed_and_ours(setup, 1.0)
    algorithms |= {f"ours, first={n}": PrivateUCB(first=n, **options) for n in (25, 400)}
    algorithms |= {f"ours, width={w:g}": PrivateUCB(width=w, **options) for w in (0.0, 2.0)}
    setting, gains = "epsilon=1", [("TS, B=300", "TS, B=10")]
    _, rows = compared(setup, setting, algorithms, epsilon=1.0, gains=gains)
    own = {row.subject: row for row in rows if row.measure == runs.OF_BASELINE}
    b, v = [f"TS, B={b}" for b in batches], [f"TS, v={v:g}" for v in scales]
    best_ucb = [f"UCB, B={b}" for b in batches] + [f"UCB, alpha={w:g}" for w in widths]
    for subject, names, pick in (
        ("TS, worst B", b, min),
        ("TS, worst v", v, min),
        ("TS, best of the grid", b + v, max),
        ("UCB, best of the grid", best_ucb, max),
        ("zCDP-Episodic, best of the grid", [name for name in own if "zCDP" in name], max),
    ):
        rows.append(replace(pick((own[name] for name in names), key=_value), subject=subject))
    percents = [own[name].ours for name in grid]
    half, count = (max(percents) - min(percents)) / 2, own[OURS].replicates
    return [*rows, Row(setting, "grid of v0 and gamma", "half the range of %", half, 0, count)]


def horizon(setup: Setup) -> list[Row]:
    """Measure absolute regret, and its growth with the number of rounds."""
    horizons = (500, 2_000) if setup.quick else (2_500, 5_000, 10_000, 20_000)
    span = f"T={horizons[0]}..{horizons[-1]}"
    rows: list[Row] = []
    for epsilon in (1.0,) if setup.quick else (1.0, 5.0):
        scaled: dict[str, list[Row]] = {}
        excess: dict[str, list[Any]] = {}
        for rounds in horizons:
            options = private(setup, epsilon, rounds=rounds)
            algorithms = seed_and_ours(setup, epsilon, rounds=rounds)
            algorithms["fair TS"] = AdaPrivateTS(scale=0.1, **options, **_FAIR)
            setting = f"T={rounds}, epsilon={epsilon:g}"
            played, found = compared(setup, setting, algorithms, epsilon=epsilon)
            for row in found:
                if row.measure == "regret":
                    ours, error = row.ours / math.sqrt(rounds), row.error / math.sqrt(rounds)
                    per_root = replace(row, measure="regret / sqrt(T)", ours=ours, error=error)
                    rows += [row, per_root]
                    scaled.setdefault(row.subject, []).append(per_root)
            for name in (_TS, runs.OURS_AT_TRUE):
                over = played.regret[name][:, -1] - played.regret[runs.BASELINE][:, -1]
                excess.setdefault(name, []).append(over)
        setting = f"{span}, epsilon={epsilon:g}"
        for found in scaled.values():
            for word, pick in (("smallest", min), ("largest", max)):
                row = pick(found, key=_value)
                rows.append(replace(row, setting=setting, measure=f"{word} regret / sqrt(T)"))
        for name, overs in excess.items():
            first, last = overs[0], overs[-1]
            if last.mean() <= 0 or first.mean() <= 0:  # no logarithm if better than LinUCB
                continue
            growth = math.log(horizons[-1] / horizons[0])
            slope = math.log(last.mean() / first.mean()) / growth
            parts = [runs.paired(over, 0 * over)[1] / over.mean() for over in (first, last)]
            # growth like log T between these horizons has this exponent
            as_log = math.log(math.log(horizons[-1]) / math.log(horizons[0])) / growth
            measure = "power of T of the regret beyond LinUCB, minus that of log T"
            error = math.hypot(*parts) / growth
            rows.append(Row(setting, name, measure, slope - as_log, error, len(first)))
    return rows


def forced(setup: Setup) -> list[Row]:
    """Force exploration in rank-deficient adversarial contexts."""
    rows: list[Row] = []
    names = {"forced, gamma=1": 1.0, "forced, gamma=20": 20.0}
    gains = [("forced, gamma=20", _TS), ("forced, gamma=1", _TS)]
    for epsilon in setup.epsilons:
        algorithms = seed_and_ours(setup, epsilon)
        for name, gamma in names.items():
            algorithms[name] = AdaPrivateForced(gamma=gamma, **private(setup, epsilon))
        worlds: dict[str, Synthetic] = {"rank deficient": RankDeficient()}
        if epsilon == 1:
            worlds["ordinary"] = Synthetic()
        for name, world in worlds.items():
            setting = f"{name}, epsilon={epsilon:g}"
            rows += compared(setup, setting, algorithms, world, epsilon=epsilon, gains=gains)[1]
    rounds, measure = setup.rounds, "expected % of uniform rounds"
    for name, gamma in names.items():
        shares = (min(1.0, 20 * math.log(t) / (t * gamma)) for t in range(1, rounds + 1))
        rows.append(Row(f"T={rounds}", name, measure, 100 * sum(shares) / rounds))
    return rows


def curves(setup: Setup) -> list[Row]:
    """Return regret as a function of the round, at epsilon = 1."""
    options = private(setup, 1.0)
    algorithms = {
        runs.BASELINE: LinUCB(dimension=20, rounds=setup.rounds),
        "LinTS": LinTS(dimension=20, rounds=setup.rounds),
        **seed_and_ours(setup, 1.0),
        _UCB: AdaPrivateUCB(**options),
        "AdaPrivate-Adaptive": AdaPrivateAdaptive(**options),
    }
    columns = runs.run(setup, algorithms).table()
    names = ("round", "algorithm", "regret", "standard_error", "replicates")
    points = zip(*(columns[name][4::5] for name in names), strict=True)
    return [Row(f"t={t}", name, "regret", *numbers) for t, name, *numbers in points]
