"""Scores of outputs: log-likelihood ratios log P1 / P0, known, or fitted on untested outputs."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privacy import checks
from privacy.audit._calls import called

Floats = NDArray[np.float64]
Release = Callable[..., Any]
Score = Callable[[Any], Floats]
Rows = Floats | list[Floats]
"""Outputs: an array of shape (runs, numbers), or a list of arrays where their lengths vary."""
RowScore = Callable[[Rows], ArrayLike]

_BINS = 32
_TOO_FEW = 4


def outputs(
    release: Release,
    data: Any,
    rng: np.random.Generator,
    runs: int,
    progress: Callable[[int], Any] = lambda _: None,
) -> Rows:
    """Return the outputs of a release on one data set."""
    names = _parameters(release)
    if "size" in names:
        found = np.asarray(called("release", release, data, rng, runs), dtype=np.float64)
        if found.ndim == 0 or len(found) != runs:
            remedy = "Return `size` outputs, stacked."
            rule = f"of shape ({runs}, ...)"
            raise ValueError(checks.expected("outputs", found.shape, rule, remedy))
        progress(runs)
        return _telling_something(found.reshape(runs, math.prod(found.shape[1:])))
    seeded = (rng,) if len(names) > 1 else ()
    rows = []
    for _ in range(runs):
        rows.append(_row(called("release", release, data, *seeded)))
        progress(1)
    return rows if _length(rows) is None else _telling_something(np.stack(rows))


def _telling_something(found: Floats) -> Floats:
    remedy = "Return a number or an array of numbers."
    checks.refuse_if(not found.shape[1], "outputs", [], "nonempty in some run", remedy)
    return found


def _length(*outputs: Rows) -> int | None:
    lengths = {row.size for rows in outputs for row in rows}
    return lengths.pop() if len(lengths) == 1 else None


def _stacked(rows: Rows, length: int | None) -> Floats:
    """Return outputs as an array; one of another length than `length` becomes NaN, without a score.

    If `length` is None, the score is a function of the length alone.
    """
    if length is None:
        return np.array([[row.size] for row in rows], dtype=np.float64)
    if isinstance(rows, np.ndarray) and rows.shape[1] == length:
        return rows
    return np.stack([row if row.size == length else np.full(length, np.nan) for row in rows])


def of_rows(score: Callable[[Any], ArrayLike]) -> RowScore:
    """Return a score of arrays as one of outputs."""
    return lambda rows: score(_stacked(rows, _length(rows)))


def fit_rows(training_0: Rows, training_1: Rows) -> RowScore:
    """Return a score of outputs, fitted by `fit_score` to outputs of any lengths."""
    length = _length(training_0, training_1)
    score = fit_score(_stacked(training_0, length), _stacked(training_1, length))
    return lambda rows: score(_stacked(rows, length))


def _parameters(release: Release) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(release).parameters.values()
    except ValueError:  # some builtins have no signature
        return ["data"]
    except TypeError as error:
        remedy = "Pass a function of the data, or of the data and a random generator."
        raise TypeError(checks.expected("release", release, "a function", remedy)) from error
    return [
        one.name
        for one in parameters
        if one.kind in kinds and (one.default is one.empty or one.name in ("rng", "size"))
    ]


def _row(output: Any) -> Floats:
    try:
        # a forgotten return gives None, which NumPy would convert to NaN
        return np.asarray("" if output is None else output, dtype=np.float64).ravel()
    except (TypeError, ValueError) as error:
        remedy = "Return a number or an array of numbers."
        raise TypeError(checks.expected("output", output, "numbers", remedy)) from error


def gaussian_score(center_0: ArrayLike, center_1: ArrayLike, sigma: ArrayLike) -> Score:
    """Return the log-likelihood ratio of Gaussian noise around two known centers.

    It maps outputs of shape (runs, numbers), or (runs,), to scores of shape (runs,). `center_0` and
    `center_1` are the query's values on either data set, of shape () or (numbers,). `sigma` > 0 is
    the noise's standard deviation, of a shape that broadcasts.
    """
    low, high, scale = _centers(center_0, center_1, sigma)
    return _summed(lambda x: (high - low) * (x - (low + high) / 2) / scale**2)


def laplace_score(center_0: ArrayLike, center_1: ArrayLike, scale: ArrayLike) -> Score:
    """Return the score of Laplace noise of density ``exp(-|x| / b) / 2b``; see `gaussian_score`."""
    low, high, scale = _centers(center_0, center_1, scale)
    return _summed(lambda x: (np.abs(x - low) - np.abs(x - high)) / scale)


def _centers(*values: ArrayLike) -> tuple[Floats, Floats, Floats]:
    low, high, scale = (np.asarray(value, dtype=np.float64).ravel() for value in values)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        remedy = "Pass the query's values on both data sets."
        raise ValueError(checks.expected("center_0, center_1", "NaN or inf", "finite", remedy))
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        remedy = "Pass the noise's scale in the unit of the query."
        raise ValueError(checks.expected("scale", scale.tolist(), "> 0 and finite", remedy))
    return low, high, scale


def _rows(outputs: Any) -> Floats:
    x = np.asarray(outputs, dtype=np.float64)
    return x.reshape(len(x), -1)


def _summed(loss: Callable[[Floats], Floats]) -> Score:
    """Return the sum over the numbers of an output; 0, which favors neither data set, for NaN."""

    def score(outputs: Any) -> Floats:
        total = loss(_rows(outputs)).sum(axis=1)
        return np.where(np.isnan(total), 0.0, total)

    return score


def fit_score(training_0: ArrayLike, training_1: ArrayLike, classifier: Any = None) -> Score:
    """Fit a score, the estimated log-likelihood ratio, on outputs that are not tested afterward.

    The classifier or a linear discriminant projects outputs to one number, and a histogram of it,
    with a bin for NaN, gives the ratio. The score maps outputs to an array of shape (runs,).
    `training_0` and `training_1` are outputs on either data set, shape (runs, numbers) or (runs,),
    at least 4 runs each. `classifier` is one of scikit-learn (extra ``audit``), with ``fit(X, y)``
    and ``decision_function(X)`` or ``predict_proba(X)``, with finite outputs.
    """
    first, second = _rows(training_0), _rows(training_1)
    remedy = "Pass outputs of one shape, hundreds per data set."
    rule = f"of shape (runs, {first.shape[1]})"
    checks.refuse_if(first.shape[1] != second.shape[1], "training_1", second.shape, rule, remedy)
    rule = f"at least {_TOO_FEW} runs"
    checks.refuse_if(min(len(first), len(second)) < _TOO_FEW, "training", len(first), rule, remedy)
    # fit the histogram on the half not used for the projection, which would overfit it
    project = _projection(first[::2], second[::2], classifier)
    held_out = [first[1::2], second[1::2]] if first.shape[1] > 1 or classifier else [first, second]
    low, high = map(project, held_out)
    pooled = np.concatenate([low, high])
    known = pooled[~np.isnan(pooled)]
    picks = np.linspace(0, max(0, known.size - 1), _BINS + 1).astype(int)
    edges = np.unique(np.sort(known)[picks]) if known.size else known

    def bins(values: Floats) -> NDArray[np.intp]:
        # a value that equals an edge, as with discrete outputs, has its own bin
        found = np.searchsorted(edges, values, "left") + np.searchsorted(edges, values, "right")
        return np.where(np.isnan(values), 2 * edges.size + 1, found)

    counts = [np.bincount(bins(values), minlength=2 * edges.size + 2) for values in (low, high)]
    # add half a count to each bin, so that the ratios of rare outputs are finite
    ratios = np.log((counts[1] + 0.5) / len(high)) - np.log((counts[0] + 0.5) / len(low))

    def score(outputs: Any) -> Floats:
        return np.asarray(ratios[bins(project(_rows(outputs)))])

    return score


def _projection(first: Floats, second: Floats, classifier: Any) -> Callable[[Floats], Floats]:
    """Return a map of outputs to one number; NaN for outputs with a nonfinite entry."""
    if classifier is None and first.shape[1] == 1:
        return lambda x: x[:, 0]
    known = [x[np.isfinite(x).all(axis=1)] for x in (first, second)]
    if min(map(len, known)) < 2:
        return lambda x: np.where(np.isfinite(x).all(axis=1), 0.0, np.nan)
    measure: Callable[[Floats], Floats]
    if classifier is None:
        measure = _discriminant(*known)
    else:
        classifier.fit(np.concatenate(known), np.repeat([0, 1], [len(x) for x in known]))
        if hasattr(classifier, "decision_function"):
            measure = classifier.decision_function
        else:
            measure = lambda x: classifier.predict_proba(x)[:, 1]  # noqa: E731

    def project(x: Floats) -> Floats:
        found = np.full(len(x), np.nan)
        usable = np.isfinite(x).all(axis=1)
        if usable.any():
            found[usable] = measure(x[usable])
        return found

    return project


def _discriminant(first: Floats, second: Floats) -> Callable[[Floats], Floats]:
    """Return the linear discriminant, scaled, so that the ridge hides no coordinate."""
    size = np.abs(np.concatenate([first, second])).max(axis=0)
    size[size == 0] = 1.0
    low, high = first / size, second / size
    toward = high.mean(axis=0) - low.mean(axis=0)
    inside = np.concatenate([low - low.mean(axis=0), high - high.mean(axis=0)])
    spread = np.maximum(inside.std(axis=0), 1e-9 * np.abs(toward))
    spread[spread == 0] = 1.0
    inside /= spread
    correlation = inside.T @ inside / len(inside) + 1e-9 * np.eye(size.size)
    weights = np.linalg.solve(correlation, toward / spread) / spread

    def measure(x: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):  # the result is then NaN
            return np.asarray((x / size) @ weights)

    return measure
