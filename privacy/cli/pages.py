"""The pages of `dpcalib serve`: one form per command, without scripts.

`python -m privacy.cli.pages SECONDS` reads a question from stdin, and prints its page.
"""

import json
import re
import shlex
import sys
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import click

import privacy as dp
from privacy import checks
from privacy.answers.batches import flags
from privacy.answers.plans import account_plan
from privacy.answers.records import Record
from privacy.cli import output, plans, runs
from privacy.cli.convert import convert
from privacy.cli.explain import explain
from privacy.cli.options import OPTIONS, number
from privacy.cli.questions import REFUSALS, Question, told

_RUNS = (runs.sigma, runs.epsilon, runs.delta, runs.steps, runs.sampling_probability)
FORMS = {str(each.name): each for each in (*_RUNS, convert, explain, plans.account)}
STYLE, _PLAN, _HTML = (
    Path(__file__).with_name(f"page.{kind}").read_text("utf-8") for kind in ("css", "toml", "html")
)
_GIVEN = {"forms": FORMS, "options": OPTIONS, "labels": output.LABELS}
_Texts = Mapping[str, str] | None


@cache
def template() -> Any:
    """Return the template of all pages; requires jinja2."""
    with checks.installed("serve"):
        from jinja2 import Environment
    return Environment(autoescape=True, trim_blocks=True).from_string(_HTML, _GIVEN)


def page(form: Question, texts: _Texts = None, *, record: Any = None, error: str = "") -> str:
    """Return a form, with the answer, or with the error beside the first field that it names."""
    asked, whole = form.asked, form is plans.account
    rest = [name for name in asked.names if name not in (*asked.one_of, *asked.needs, "certify")]
    given = {"plan": _PLAN} if texts is None else texts
    named = re.findall(r"(?:^|Expected |Pass )([a-z_]+)=|--([a-z-]+)", error)
    fields = [(name or flag).replace("-", "_") for name, flag in [*named, ("plan", "")]]
    known = {"plan", *given} if whole else asked.names
    bad = next((name for name in fields if name in known), None) if error else None
    words = [word for name in given if name != "plan" for word in (flags([name]), given[name])]
    rendered: str = template().render(
        form=form,
        context=click.Context(form),
        groups={"Exactly one of": asked.one_of, "Given": asked.needs, "Options": rest},
        texts=given,
        error=error,
        bad=bad,
        focus=bad or (asked.names[0] if texts is None else None),
        record=record,
        rows=record and output.rows(record),
        tables=plans.tables(record) if record and whole else [],
        shell=shlex.join(["dpcalib", str(form.name), *["plan.toml"] * whole, *words]),
    )
    return rendered


def _answered(form: Question, texts: Mapping[str, str]) -> Record:
    values: dict[str, Any] = dict(texts)
    for name in texts.keys() & OPTIONS.keys():
        if OPTIONS[name].metavar == "NUMBER":
            try:
                values[name] = number(texts[name])
            except ValueError as error:
                raise ValueError(f"{name}={error}") from error
    if form is not plans.account:
        return form.answer(values)
    return account_plan(dp.plan_from_json(tomllib.loads(values.pop("plan", ""))), **values)


def answer(name: str, texts: Mapping[str, str]) -> tuple[int, str]:
    """Return 0 and the page with the answer, or 2 and the page with the reason of a refusal."""
    try:
        return 0, page(FORMS[name], texts, record=_answered(FORMS[name], texts))
    except REFUSALS as error:
        return 2, page(FORMS[name], texts, error=told(error, FORMS[name].asked.names))


if __name__ == "__main__":
    if sys.platform != "win32":
        import resource

        limits = {resource.RLIMIT_CPU: int(sys.argv[1]) + 1, resource.RLIMIT_DATA: 4 * 2**30}
        for kind, most in limits.items():  # seconds and bytes; also if the server has ended
            with suppress(ValueError):  # a lower limit holds already
                resource.setrlimit(kind, (most, most))
    code, text = answer(*json.load(sys.stdin))
    sys.stdout.write(text)
    sys.exit(code)
