"""`dpcalib audit`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from privacy.cli import main

MODULE = """
import numpy as np

pair = ([1.0], [1.0, 2.0])
other = ([], [9.0])
three = (1, 2, 3)

def count(data, rng):
    return len(data) + rng.normal(0, 2.0)
"""
PLAN = """
schema = "dpcalib.plan/1"
name = "a count"
[budget]
delta = 1e-6
[[part]]
name = "count"
type = "Gaussian"
noise_multiplier = {noise}
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "my_release.py").write_text(MODULE, encoding="utf-8")
    for name, noise in (("true", 2.0), ("false", 4.0)):
        (tmp_path / f"{name}.toml").write_text(PLAN.format(noise=noise), encoding="utf-8")

    def run(*arguments):
        command = str(Path(sys.executable).parent / "dpcalib")
        return subprocess.run(
            [command, "audit", *arguments],
            cwd=tmp_path,
            env=os.environ | {"NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_true_and_a_false_claim(run, tmp_path):
    done = run("my_release:count", "--claim", "true.toml", "--runs", "2000", "--plot", "seen.png")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("a count: Gaussian(noise_multiplier=2.0")
    assert "not falsified" in done.stdout
    assert (tmp_path / "seen.png").read_bytes().startswith(b"\x89PNG")
    done = run("my_release:count", "--claim", "false.toml", "--runs", "2000", "--json")
    assert done.returncode == 3, done.stderr
    answer = json.loads(done.stdout)
    assert answer["schema"] == "dpcalib.audit/1"
    assert answer["falsified"] is True
    assert answer["p_value"] <= answer["significance"] == 1e-6


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["my_release:count"], "--claim"),
        (["my_release", "--claim", "true.toml"], "MODULE:NAME"),
        (["no_such:count", "--claim", "true.toml"], "importable"),
        (["my_release:no_such", "--claim", "true.toml"], "in module my_release"),
        (["my_release:count", "--claim", "no.toml"], "no.toml"),
        (["my_release:count", "--claim", "true.toml", "--pair", "my_release:three"], "pair"),
        (["my_release:count", "--claim", "true.toml", "--runs", "0"], "runs"),
        (["my_release:count", "--claim", "true.toml", "--significance", "2"], "significance"),
    ],
)
def test_usage(run, tmp_path, monkeypatch, arguments, told):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    done = CliRunner().invoke(main, ["audit", *arguments])
    sys.modules.pop("my_release", None)
    assert done.exit_code == 2, done.stdout
    assert told in done.stderr
    assert isinstance(done.exception, SystemExit)


def test_an_import_error_in_the_module_is_shown(run, tmp_path):
    (tmp_path / "broken.py").write_text("import os\nos.no_such_thing\n", encoding="utf-8")
    done = run("broken:count", "--claim", "true.toml")
    assert done.returncode not in (0, 3)
    assert "no_such_thing" in done.stderr
    assert "that the module defines" not in done.stderr


def test_another_pair(run):
    arguments = ["--claim", "true.toml", "--pair", "my_release:other", "--runs", "500"]
    assert run("my_release:count", *arguments).returncode == 0


ENDS = """
import sys, unittest
import click, pytest
import privacy as dp

pair = ([1.0], [1.0, 2.0])
infeasible = dp.Infeasible("as if falsified", 1.0)

def leaves(data, rng):
    sys.exit(0)

def leaves_the_command(data, rng):
    click.get_current_context().exit(0)

def interrupts(data, rng):
    raise KeyboardInterrupt

def skips(data, rng):
    pytest.skip("not today")

def looks_falsified(data, rng):
    raise infeasible

class Leaving:
    def __array__(self, *_, **__):
        sys.exit(0)

def returns_what_leaves(data, rng):
    return Leaving()

def divides(data, rng):
    return 1 // (len(data) - 2)
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("leaves", "SystemExit: 0"),
        ("leaves_the_command", "Exit: 0"),
        ("interrupts", "Interrupted"),
        ("skips", "Skipped: not today"),
        ("looks_falsified", "Infeasible: as if falsified"),
        ("returns_what_leaves", "SystemExit"),
        ("divides", "ZeroDivisionError: "),
    ],
)
def test_an_exception_in_a_release_makes_the_audit_inconclusive(run, tmp_path, name, told):
    (tmp_path / "ends.py").write_text(ENDS, encoding="utf-8")
    done = run(f"ends:{name}", "--claim", "true.toml", "--runs", "10")
    assert done.returncode == (130 if name == "interrupts" else 2), done.stderr
    assert done.stdout == ""
    assert told in done.stderr
    assert "The audit is inconclusive: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_module_that_exits_is_an_error(run, tmp_path):
    (tmp_path / "script.py").write_text("import sys\nsys.exit(0)\n", encoding="utf-8")
    done = run("script:count", "--claim", "true.toml")
    assert done.returncode == 2
    assert "Expected module script to return; it raised SystemExit: 0" in done.stderr
