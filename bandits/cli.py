"""The command `dpcalib bandit`."""

import contextlib
import inspect
import json
import math
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bandits.experiments import NAMES
from bandits.experiments.options import OPTIONS, TABLES

if TYPE_CHECKING:
    from bandits.offline.environments import Environment

_DEFAULT = ("LinUCB", "AdaPrivateTS", "AdaPrivateUCB", "PrivateUCB")
_BAD_INPUT = (ValueError, TypeError, OSError, ImportError, MemoryError)
_FILE = click.Path(dir_okay=False, path_type=Path)


def _simulate(
    *,
    algorithm: tuple[str, ...],
    epsilon: float,
    delta: float,
    dimension: int,
    rounds: int,
    replicates: int,
    seed: int,
    jobs: int,
    data: Path | None,
    explore: float,
    table: Path | None,
    plot: Path | None,
    as_json: bool,
    **synthetic: Any,
) -> None:
    """Compare the regret of algorithms by simulation.

    The environments are synthetic: the mean reward of a candidate with features x is a function
    (--link) of theta'x. With --data, rounds replay logged ratings instead.
    """
    import bandits
    from bandits.algorithms.registry import ALGORITHMS
    from bandits.experiments.tables import up

    for option, path, endings in (
        ("--table", table, (".csv", ".parquet")),
        ("--plot", plot, (".png", ".svg", ".pdf")),
    ):
        if path is not None and not (path.suffix in endings and path.parent.is_dir()):
            rule = f"a {' or '.join(endings)} file in an existing folder"
            raise click.UsageError(
                f"Expected {option}={str(path)!r} to be {rule}. Pass such a path."
            )
    built = {}
    try:
        world = _environment(data, dimension, synthetic)
        for name in algorithm:
            form: dict[str, Any] = {"type": name, "dimension": dimension, "rounds": rounds}
            form["explore"] = explore
            if issubclass(ALGORITHMS.get(name, bandits.NonPrivate), bandits.Private):
                form |= {"epsilon": epsilon, "delta": delta}
            built[name] = bandits.algorithm_from_json(form)
        found = bandits.simulate(
            built,
            world,
            replicates=replicates,
            seed=seed,
            n_jobs=jobs,
            progress=sys.stderr.isatty(),
        )
        if table is not None:
            write = found.to_parquet if table.suffix == ".parquet" else found.to_csv
            write(table)
        if plot is not None:
            found.plot().savefig(plot, dpi=150)
    except _BAD_INPUT as error:
        raise click.UsageError(str(error)) from error
    rows: list[dict[str, Any]] = [
        {
            "algorithm": name,
            "regret": float(mean),
            "standard_error": float(error),
            **_protection(built[name].guarantee(delta)),
        }
        for name, (mean, error) in found.final_regret().items()
    ]
    if as_json:
        finite = [{key: _json(value) for key, value in row.items()} for row in rows]
        answer = {"schema": "dpcalib.bandit-simulate/1", "rounds": rounds, "delta": delta}
        click.echo(json.dumps(answer | {"algorithms": finite}, allow_nan=False))
        return
    click.echo(
        f"{'algorithm':<18} {'regret':>8} {'s.e.':>6} {'epsilon':>8}  {'relation':<15}  unit"
    )
    for row in rows:
        numbers = f"{row['regret']:>8.1f} {row['standard_error']:>6.1f} {up(row['epsilon']):>8}"
        scope = f"{row['relation'] or 'none':<15}  {row['unit'] or 'none'}"
        click.echo(f"{row['algorithm']:<18} {numbers}  {scope}")
    click.echo(
        f"\nMean regret after {rounds} rounds over {replicates} replicates. epsilon is an upper "
        f"bound at delta={delta:g}; the target was {epsilon:g}."
    )


def _environment(data: Path | None, dimension: int, synthetic: dict[str, Any]) -> "Environment":
    """Return a synthetic environment, or the replay of a CSV file with features from an SVD."""
    import numpy as np

    import bandits

    if data is None:
        return bandits.Synthetic(dimension=dimension, **synthetic)
    needed = "user", "item", "rating"
    with data.open(encoding="utf-8") as file:
        names = file.readline().strip().split(",")
        table = np.zeros((0, 3))
        if set(needed) <= set(names):
            places = [names.index(name) for name in needed]
            with contextlib.suppress(ValueError), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NumPy warns if a file has no rows
                table = np.loadtxt(file, delimiter=",", usecols=places, ndmin=2)
    rating = table[:, 2]
    if not np.isfinite(table).all() or len(np.unique(rating)) < 2:
        rule = "a CSV file of numbers with the columns user, item and rating"
        remedy = "Pass one with at least two different ratings."
        raise ValueError(f"Expected --data={str(data)!r} to be {rule}. {remedy}")
    (users, user), (items, item) = (np.unique(each, return_inverse=True) for each in table.T[:2])
    low, high = float(rating.min()), float(rating.max())
    ratings = bandits.Ratings(data.name, user, item, rating, low, high, users, items)
    return bandits.Replay(
        items=bandits.svd_features(ratings, dimension).values,
        user=user,
        item=item,
        rating=ratings.scaled,
        candidates=synthetic["candidates"],
    )


def _protection(found: Any) -> dict[str, Any]:
    protected = math.isfinite(found.epsilon)
    return {
        "epsilon": found.epsilon,
        "unit": found.unit if protected else None,
        "relation": str(found.relation) if protected else None,
    }


def _json(value: Any) -> Any:
    return str(value) if value == float("inf") else value


def _option(name: str, default: Any, text: str, choices: Sequence[str] = ()) -> click.Option:
    kind = click.Choice(choices) if choices else type(default)
    names = name.split()
    return click.Option(names, type=kind, default=default, show_default=True, help=text)


simulate = click.Command(
    "simulate",
    callback=_simulate,
    help=_simulate.__doc__,
    params=[
        click.Option(
            ["--algorithm", "-a"],
            multiple=True,
            default=_DEFAULT,
            metavar="NAME",
            help="Algorithm, such as PrivateUCB. Repeat the option for several.",
        ),
        _option("--epsilon", 1.0, "Privacy target of private algorithms."),
        _option("--delta", 1e-5, "Privacy target; choose it well below 1 / rounds."),
        _option("--explore", 0.0, "Probability of choosing a uniformly random candidate."),
        _option("--dimension", 20, "Feature dimension."),
        _option("--arms", 100, "Number of arms."),
        _option("--candidates", 5, "Number of arms offered per round."),
        _option(
            "--link",
            "logistic",
            "Mean reward: 1 / (1 + exp(-theta'x)), or 1/2 + theta'x / 4.",
            ["logistic", "linear"],
        ),
        _option(
            "--reward-distribution",
            "bernoulli",
            "Distribution of rewards around their mean.",
            ["bernoulli", "gaussian", "exact"],
        ),
        click.Option(
            ["--data"],
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Replay ratings instead: a CSV file with the columns user, item and rating. "
            "The features are an SVD of all ratings, which is not private.",
        ),
        _option("--rounds", 10_000, "Number of rounds."),
        _option("--replicates", 24, "Number of replicates."),
        _option("--seed", 0, "Random seed."),
        _option("--jobs", 1, "Number of processes; more than one requires joblib."),
        click.Option(["--table"], type=_FILE, help="Write the regret curves: .csv or .parquet."),
        click.Option(["--plot"], type=_FILE, help="Plot the regret curves: .png, .svg or .pdf."),
        click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object."),
    ],
)


def _experiment(*, name: str, **options: Any) -> None:
    """Reproduce a table of the AdaPrivate-TS preprint.

    The table shows our numbers, those of the preprint, and a verdict. A full run takes minutes.
    --quick takes seconds and is too short to judge the numbers.
    """
    from bandits.experiments.command import show
    from bandits.offline.downloads import DataUnavailable

    try:
        show(name, **options)
    except DataUnavailable as error:
        raise click.ClickException(str(error)) from error
    except _BAD_INPUT as error:
        raise click.UsageError(str(error)) from error


experiment = click.Command(
    "experiment",
    callback=_experiment,
    help=f"{inspect.getdoc(_experiment)}\n\n{TABLES}",
    params=[click.Argument(["name"], metavar="NAME", type=click.Choice(NAMES)), *OPTIONS],
)

bandit = click.Group(
    "bandit", commands=[simulate, experiment], help="Simulate private contextual bandits."
)
