"""The command as a process: what it imports, what it writes to a pipe, a terminal, a shell."""

import json
import os
import subprocess
import sys

import pytest

DPCALIB = "from privacy.cli import main; main(prog_name='dpcalib')"
PLAIN = ("sigma", "--epsilon", "1", "--delta", "1e-5")
ESCAPE = "\x1b"


def run(*args, code=DPCALIB, text="", **environment):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *args],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def modules_of(*args):
    """Return the modules that are loaded when the command ends."""
    report = "import atexit, sys\natexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
    done = run(*args, code=report + DPCALIB)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "args",
    [
        PLAIN,
        (*PLAIN, "--json"),
        (*PLAIN, "--steps", "1000", "--notion", "zcdp"),
        ("epsilon", "--sigma", "2", "--delta", "1e-5"),
        ("delta", "--sigma", "2", "--epsilon", "1"),
        ("steps", "--sigma", "20", "--epsilon", "1", "--delta", "1e-5"),
        ("convert", "--rho", "0.1", "--delta", "1e-5"),
        ("explain", "--sigma", "2", "--delta", "1e-5"),
        ("--help",),
        ("sigma", "--help"),
    ],
    ids=" ".join,
)
def test_closed_forms_need_no_numpy(args):
    loaded = modules_of(*args)
    assert "click" in loaded
    assert loaded.isdisjoint({"numpy", "scipy", "rich"})


def test_help_imports_no_proofs():
    assert "flint" not in modules_of("--help")


def test_only_the_command_that_is_used_is_imported():
    loaded = modules_of(*PLAIN)
    assert loaded.isdisjoint({"privacy.cli.convert", "privacy.cli.explain", "bandits"})


def test_sampled_run_in_a_process():
    done = run(*PLAIN, "-q", "0.01", "--steps", "1000", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["epsilon"] <= 1


@pytest.mark.parametrize("environment", [{}, {"FORCE_COLOR": "1"}, {"NO_COLOR": "1"}])
def test_a_pipe_gets_plain_text(environment):
    done = run(*PLAIN, **environment)
    assert done.returncode == 0
    assert ESCAPE not in done.stdout
    assert all(line == line.rstrip() for line in done.stdout.splitlines())


def test_exit_codes_and_streams():
    for args, code in (
        ((*PLAIN, "-q", "5"), 2),
        (("steps", "--sigma", "1", "--epsilon", "0.1", "--delta", "1e-5"), 3),
    ):
        done = run(*args)
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr.startswith("Error: ")
    done = run(*PLAIN, "--batch", text='{}\n{"steps": 0}\n{}\n')
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 3


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_gets_a_frame_unless_no_color(no_color):
    ours, theirs = os.openpty()
    environment = os.environ | {"TERM": "xterm", "NO_COLOR": no_color}
    with subprocess.Popen(
        [sys.executable, "-c", DPCALIB, *PLAIN], stdout=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 4096):
                shown += chunk
        except OSError:  # how Linux says that the other end is closed
            pass
    os.close(ours)
    assert process.returncode == 0
    text = shown.decode()
    assert "ADD_OR_REMOVE_ONE" in text
    assert (ESCAPE in text) is (not no_color)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("dpcalib si", "sigma"),
        ("dpcalib sigma --rel", "--relation"),
        ("dpcalib sigma --relation re", "replace-one"),
        ("dpcalib sigma --notion z", "zcdp"),
        ("dpcalib convert --conversion c", "classic"),
    ],
)
def test_completion_in_a_shell(words, found):
    done = run(
        _DPCALIB_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split()) - 1),
    )
    assert found in done.stdout


def test_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "privacy.cli", "sigma", "--epsilon", "1", "--delta", "1e-5"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "3.73064" in done.stdout
    done = subprocess.run(
        [sys.executable, "-m", "privacy.cli", "noise"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: dpcalib ")
