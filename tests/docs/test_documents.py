"""Everything that the documents print is run: Python, console, tables, docstrings, examples."""

import contextlib
import doctest
import importlib
import importlib.util
import io
import math
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import bandits
import privacy as dp
from privacy.cli import main

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
FENCE = re.compile(r"^```(?P<kind>python|console)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
# The last digits differ between processors.
LONG_NUMBER = re.compile(r"\d+\.\d{4,}(?:e[+-]?\d+)?")
# A row of a table of decisions: an expression, the values of its X, and its value or its error.
DECISION = re.compile(
    r"^\| `(?P<call>dp\..+?)`(?: for X = (?P<values>.+?))? \| `(?P<answer>\S+?)`", re.MULTILINE
)
ERRORS = {"ValueError": ValueError, "TypeError": TypeError, "Infeasible": dp.Infeasible}


def named(path):
    return str(path.relative_to(ROOT))


def blocks(path, kind):
    """Yield (line number, text) of the fenced blocks of one kind."""
    text = path.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        if match["kind"] == kind:
            yield text.count("\n", 0, match.start()) + 2, match["text"]


def holding(kind):
    return [path for path in DOCUMENTS if any(blocks(path, kind))]


def run_doctest(test):
    complaints = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=complaints.write, clear_globs=False)
    if complaints.getvalue():
        pytest.fail(complaints.getvalue(), pytrace=False)


@pytest.mark.parametrize("path", holding("python"), ids=named)
def test_python_blocks_run_in_order(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for line, text in blocks(path, "python"):
        if text.startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(text, {}, named(path), str(path), line - 1)
            test.globs = namespace
            run_doctest(test)
        else:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile("\n" * (line - 1) + text, str(path), "exec"), namespace)


def assert_same_output(printed, shown, where):
    """Compare word for word, and long numbers up to their last printed digit."""
    printed, shown = (
        "\n".join(row.rstrip() for row in text.strip().splitlines()) for text in (printed, shown)
    )
    assert LONG_NUMBER.sub("#", printed) == LONG_NUMBER.sub("#", shown), where
    for ours, theirs in zip(*map(LONG_NUMBER.findall, (printed, shown)), strict=True):
        assert math.isclose(float(ours), float(theirs), rel_tol=1e-5), (where, ours, theirs)


def in_a_shell(command):
    """Run a command in a shell. A first `dpcalib` without input runs here, which saves its start.

    The shell then replays its output and its exit code.
    """
    replay = ""
    if match := re.match(r"dpcalib ([^|;<>]*)([|;>][^<]*)?$", command):
        done = CliRunner().invoke(main, shlex.split(match[1]), prog_name="dpcalib")
        out, err = (shlex.quote(text) for text in (done.stdout, done.stderr))
        replay = f"dpcalib() {{ printf %s {err} >&2; printf %s {out}; return {done.exit_code}; }}\n"
    return subprocess.run(
        replay + command,
        shell=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    ).stdout


@pytest.mark.parametrize("path", holding("console"), ids=named)
def test_console_blocks_print_what_they_show(path, tmp_path, monkeypatch):
    scripts = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", scripts + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    for line, text in blocks(path, "console"):
        for exchange in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, shown = exchange.partition("\n")
            while command.endswith("\\"):
                more, _, shown = shown.partition("\n")
                command = command[:-1] + more.removeprefix(">").lstrip()
            assert_same_output(in_a_shell(command), shown, f"{named(path)}:{line}: {command}")


def modules(*packages):
    for package in packages:
        yield package.__name__
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            room, _, library = found.name.rpartition(".")
            # tests/interop runs those whose library is not in this environment
            if room != "privacy.interop" or importlib.util.find_spec(library):
                yield found.name


@pytest.mark.parametrize("name", sorted(modules(dp, bandits)))
def test_docstring_examples(name):
    module = importlib.import_module(name)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        if test.examples:
            run_doctest(test)


@pytest.mark.parametrize("path", EXAMPLES, ids=named)
def test_examples_run(path, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def decisions():
    text = (ROOT / "docs" / "bad-input.md").read_text(encoding="utf-8")
    found = []
    for match in DECISION.finditer(text):
        for value in re.findall("`(.+?)`", match["values"] or "`X`"):
            call = re.sub(r"\bX\b", lambda _, value=value: value, match["call"])
            found.append(pytest.param(call, match["answer"], id=call))
    return found


@pytest.mark.parametrize(("call", "answer"), decisions())
def test_bad_input_has_the_documented_result(call, answer):
    names = {"dp": dp, "inf": math.inf, "nan": math.nan}
    if answer in ERRORS:
        with pytest.raises(ERRORS[answer]) as caught:
            eval(call, names)
        assert type(caught.value) is ERRORS[answer]
        if answer == "ValueError":
            assert str(caught.value).startswith("Expected ")
    else:
        assert eval(call, names) == pytest.approx(float(answer), rel=5e-5, abs=0)


def test_the_table_of_decisions_is_read():
    assert len(decisions()) > 100


def test_mechanisms_page_shows_the_registered_rules():
    text = (ROOT / "docs" / "mechanisms.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in text.splitlines()]
    (notions,) = (row[1:] for row in rows if row[:2] == ["mechanism", "gaussian"])
    shown = {
        row[0].strip("`"): {notion for notion, cell in zip(notions, row[1:], strict=True) if cell}
        for row in rows
        if "yes" in row
    }
    assert shown == {kind: set(found) for kind, found in dp.support_matrix().items()}
