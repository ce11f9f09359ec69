"""`dpcalib audit`: run a function many times and test a plan's privacy claim about it."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

import privacy as dp
from privacy import checks
from privacy.answers.records import record
from privacy.audit._calls import REMEDY, NotFinished, called
from privacy.audit.results import AuditResult
from privacy.cli import output
from privacy.cli.help import FILE, READ, Command
from privacy.cli.questions import INFEASIBLE, JSON, USAGE, refusals

_CLAIM = "TOML plan that states the privacy claim."
_PAIR = "Two neighboring data sets.  [default: pair, in the function's module]"
_LEVEL = "Significance level: the largest false positive rate."
_PLOT = "Plot the observed and claimed trade-off curves to a file."
_OPTIONS = (
    click.Argument(["function"], metavar="MODULE:FUNCTION"),
    click.Option(["--claim"], type=READ, required=True, help=_CLAIM),
    click.Option(["--pair"], metavar="MODULE:NAME", help=_PAIR),
    click.Option(["--runs"], default=20_000, show_default=True, help="Runs per data set."),
    click.Option(["--significance"], default=1e-6, show_default=True, help=_LEVEL),
    click.Option(["--seed"], type=click.IntRange(min=0), default=0, help="Seed.  [default: 0]"),
    click.Option(["--plot"], type=FILE, help=_PLOT),
    JSON,
)


def _audit(
    *,
    function: str,
    claim: Path,
    pair: str | None,
    runs: int,
    significance: float,
    seed: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Test a privacy claim by repeated runs.

    FUNCTION takes (data, rng) and returns numbers. The current folder is on the import path.
    The exit code is 3 if the claim is falsified and 0 if not; 0 does not prove the claim. If the
    audit does not finish, the exit code is 2 (the function raised or exited) or 130 (Ctrl-C).

    \b
      dpcalib audit my_module:noisy_mean --claim plan.toml --pair my_module:pair
    """
    with _unfinished(), refusals():
        output.check_picture(plot)
        plan = dp.load_plan(claim)
        release = _named(function)
        data = _named(pair or f"{function.partition(':')[0]}:pair")
        from privacy.audit.claims import falsify, scored

        curve = dp.account(plan.mechanism, notion=plan.notion, relation=plan.relation)

        def judged(*scores: Any) -> AuditResult:
            return falsify(curve, *scores, significance=significance, relation=plan.relation)

        judged([0.0], [0.0])  # raise for invalid arguments before the runs, not after them
        with _progress(2 * (runs + min(runs, 20_000))) as advance:
            scores = scored(release, data, runs=runs, score=None, seed=seed, progress=advance)
        result = judged(*scores)
        if plot is not None:
            output.draw(plot, "plot_tradeoff", curve, *scores)
    if as_json:
        click.echo(output.to_json(record("audit", {"name": plan.name, **result.to_json()})))
    else:
        click.echo(output.filled(f"{plan.name}: {result}", output.width()))
    if result.falsified:
        click.get_current_context().exit(INFEASIBLE)


def _named(text: str) -> Any:
    module, _, name = text.partition(":")
    remedy = "Pass a module and a name in it, such as my_module:release."
    checks.refuse_if(not module or not name, "name", text, "MODULE:NAME", remedy)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = called(f"module {module}", importlib.import_module, module)
    except NotFinished as error:
        cause = error.__cause__
        missing = isinstance(cause, ModuleNotFoundError) and cause.name
        if missing not in (module, module.partition(".")[0]):
            raise
        remedy = "Run in the module's folder and pass its name without .py."
        raise ValueError(checks.expected("module", module, "importable", remedy)) from cause
    try:
        return getattr(found, name)
    except AttributeError as error:
        remedy = "Pass a name that the module defines."
        raise ValueError(checks.expected("name", name, f"in module {module}", remedy)) from error


@contextmanager
def _unfinished() -> Iterator[None]:
    """Report an audit that did not finish. Exit as for bad input, or re-raise on Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        output.error("The audit is inconclusive: it was interrupted. Rerun it.")
        raise
    except (NotFinished, SystemExit) as error:  # an output's __float__ can raise SystemExit
        explained = isinstance(error, NotFinished)
        output.error(str(error) if explained else f"{type(error).__name__}: {REMEDY}")
        click.get_current_context().exit(USAGE)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], Any]]:
    if not sys.stderr.isatty() or os.environ.get("NO_COLOR"):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("running", total=total)
        yield lambda count: bar.advance(task, count)


audit = Command("audit", params=[*_OPTIONS], callback=_audit, help=_audit.__doc__)
