"""Build commands from the functions of `privacy.answers`: option sources, batches, exit codes."""

import json
import re
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import starmap
from pathlib import Path
from typing import Any

import click

import privacy as dp
from privacy import checks
from privacy.answers.batches import flags
from privacy.answers.options import Asked, Values, named
from privacy.answers.records import Record, record
from privacy.cli import options, output
from privacy.cli.help import FILE, GLUE, READ, Command
from privacy.mechanisms import UnsupportedMechanism

Answer = Callable[[Mapping[str, Any]], Record]
Show = Callable[[Record], None]

USAGE, INFEASIBLE, NOT_CERTIFIED = 2, 3, 4
REFUSALS = (ValueError, TypeError, ArithmeticError, RecursionError, UnsupportedMechanism)

_LINE = 'Write the options as an object, such as {"steps": 10}.'

JSON = click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object.")

_CONFIG = "TOML file of options; the command line overrides it."
_JOBS = "Processes of --batch, -1 for all cores; more than one requires joblib."
_BATCH = "Read one JSON object of options per line from stdin; print one answer per line."
_SOURCES = (
    click.Option(["--config"], type=READ, help=_CONFIG),
    click.Option(["--batch"], is_flag=True, help=_BATCH),
    click.Option(["--jobs"], type=int, default=1, show_default=True, help=_JOBS),
    JSON,
)


def _exit_code(error: Exception) -> int:
    if isinstance(error, dp.Infeasible | dp.BudgetExceeded):
        return INFEASIBLE
    return NOT_CERTIFIED if isinstance(error, dp.NotCertified) else USAGE


def told(error: Exception, names: Collection[str]) -> str:
    """Return the message of a refusal, with the `names` in its remedies as command-line options."""
    if isinstance(error, ArithmeticError):
        return f"The inputs are outside the computable range ({error}). Pass less extreme values."
    if isinstance(error, RecursionError):
        return "The input is nested too deeply. Remove nesting levels."
    text = str(error)
    if "relation" not in names:  # the command reads a file, whose keys are those names
        return text
    if "notion" in names:
        text = text.replace("Use notion", "Use --notion")
    if "sampler" in names:
        text = text.replace("use PoissonSampled", "use --sampler poisson")
    given = rf"([Pp]ass|with|such as) ({'|'.join(names)})=(\"?)(\S*?)\3(?=[\s.,;:]|$)"
    return re.sub(given, lambda found: _spelled(*found.group(1, 2, 4)), text)


def _spelled(lead: str, name: str, value: str) -> str:
    return " ".join(filter(None, (lead, flags([name]), value)))


_CERTIFICATE = "File to write a certificate to, for dpcalib verify. Implies --certify."
CERTIFICATE = click.Option(["--certificate"], type=FILE, help=_CERTIFICATE)


class Question(Command):
    """A command that asks a function of `privacy.answers`."""

    asked: Asked
    answer: Answer


@contextmanager
def refusals() -> Iterator[None]:
    """Print an error raised inside the block, and exit with its code."""
    try:
        yield
    except REFUSALS as error:
        context = click.get_current_context()
        output.error(told(error, [str(option.name) for option in context.command.params]))
        context.exit(_exit_code(error))


def command(
    answer: Answer,
    asked: Asked,
    text: str,
    *,
    show: Show = output.table,
    certify: Callable[[Record], Record] | None = None,
) -> Question:
    """Return a command; `show` prints its record as text, and `certify` returns its certificate."""

    def reply(*layers: Mapping[str, Any]) -> Record:
        return answer(options.merged(layers, asked.one_of))

    def run(
        *,
        config: Path | None,
        batch: bool,
        jobs: int,
        as_json: bool,
        certificate: Path | None = None,
        **typed: Any,
    ) -> None:
        with refusals():
            if certificate is not None:
                if batch or typed["certify"] is False:
                    other = "--batch" if batch else "--no-certify"
                    raise ValueError(f"Remove --certificate or {other}: they exclude each other.")
                typed["certify"] = True
            unused, remedy = jobs != 1 and not batch, "Omit --jobs, or add --batch."
            checks.refuse_if(unused, "jobs", jobs, "1 without --batch", remedy)
            layers: list[Mapping[str, Any]] = [_from_file(config, asked.names), typed]
            if batch:
                worst = _run_batch(asked.names, lambda line: reply(*layers, line), jobs)
                click.get_current_context().exit(worst)
            answered = reply(*layers)
            if certificate is not None and certify is not None:
                proof = json.dumps(certify(answered), indent=2, allow_nan=False)
                certificate.write_text(proof + "\n", encoding="utf-8")
        output.reply(answered, show, as_json=as_json)

    one_of = [f"({' | '.join(map(_flag, asked.one_of))})"] if asked.one_of else []
    own = [options.OPTIONS[name] for name in asked.names]
    made = Question(
        answer.__name__.replace("_", "-"),
        params=[*own, *([CERTIFICATE] if certify else []), *_SOURCES],
        callback=run,
        help=text,
        options_metavar=" ".join([*one_of, *map(_flag, asked.needs), "[OPTIONS]"]),
    )
    made.asked, made.answer = asked, answer
    return made


def _flag(name: str) -> str:
    return f"{flags([name])}{GLUE}{options.OPTIONS[name].metavar}"


def _from_file(path: Path | None, names: tuple[str, ...]) -> Values:
    """Return this command's options in a TOML file, which other commands may share."""
    if path is None:
        return {}
    try:
        values = named(_flat_toml(path), options.OPTIONS)
    except ValueError as error:
        raise ValueError(f"In {path}: {error}") from error
    return {name: value for name, value in values.items() if name in names}


def _flat_toml(path: Path) -> Values:
    """Read TOML; reject a deep key, because parsing takes time quadratic in its depth."""
    text = path.read_text(encoding="utf-8")
    if any(line.count(".") > 1000 for line in text.splitlines()):
        remedy = "Write one option per line, such as steps = 10."
        raise ValueError(checks.expected("config", "<a deeply nested key>", "flat", remedy))
    return tomllib.loads(text)


def _run_batch(names: tuple[str, ...], reply: Callable[[Values], Record], jobs: int) -> int:
    """Print one record, or error record, per input line; return the highest exit code."""

    def answered(number: int, line: bytes) -> tuple[Record, int]:
        try:
            return reply(named(_parsed(line), names)), 0
        except REFUSALS as error:
            code = _exit_code(error)
            problem = {"line": number, "error": told(error, names), "exit_code": code}
            if isinstance(error, UnsupportedMechanism):
                problem["alternatives"] = list(error.alternatives)
            return record("error", problem), code

    remedy = "Pass the number of processes, or -1 for all cores."
    checks.refuse_if(jobs < -1 or jobs == 0, "jobs", jobs, ">= 1, or -1", remedy)
    lines = ((number, line) for number, line in enumerate(sys.stdin.buffer, 1) if line.strip())
    found: Iterable[tuple[Record, int]] = starmap(answered, lines)
    if jobs != 1:
        with checks.installed("scale"):
            from joblib import Parallel, delayed

        found = Parallel(n_jobs=jobs, return_as="generator")(starmap(delayed(answered), lines))
    worst = 0
    for answer, code in found:
        click.echo(output.to_json(answer))
        worst = max(worst, code)
    return worst


def _parsed(line: bytes) -> Mapping[str, Any]:
    try:
        values: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise ValueError(f"Expected a JSON object. {_LINE} {error}") from error
    checks.instance("line", values, dict, "a JSON object", _LINE)
    return values
