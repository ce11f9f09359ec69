"""The command as a process: what it imports, what it writes to a pipe, a terminal, a shell."""

import json
import os
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

DPCALIB = "from privacy.cli import main; main(prog_name='dpcalib')"
# Run several commands after each other in one process, which starts once, and report after each.
SEVERAL = """
import json, sys
from privacy.cli import main
for args in json.loads(sys.argv[1]):
    try:
        main(args, prog_name="dpcalib")
    except SystemExit as end:
        print("\\x1f", end.code or 0, *sys.modules, end="\\x1f", flush=True)
"""
PLAIN = ("sigma", "--epsilon", "1", "--delta", "1e-5")
ESCAPE = "\x1b"
FULL = Path("/dev/full")


def run(*args, code=DPCALIB, text="", **environment):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *args],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


needs_terminal = pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
ANSI = re.compile("\x1b\\[[0-9;?]*[a-zA-Z]")


def shown(*commands, columns=80, no_color="", cwd=None):
    """Return what each command shows on a terminal, and its exit code."""
    import fcntl
    import termios

    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = os.environ | {"TERM": "xterm", "NO_COLOR": no_color}
    environment.pop("COLUMNS", None)
    command = [sys.executable, "-c", SEVERAL, json.dumps(commands)]
    with subprocess.Popen(
        command, stdout=theirs, stderr=theirs, env=environment, cwd=cwd
    ) as process:
        os.close(theirs)
        text = b""
        try:
            while chunk := os.read(ours, 4096):
                text += chunk
        except OSError:  # how Linux says that the other end is closed
            pass
    os.close(ours)
    assert process.returncode == 0, text
    texts, ends = (text.decode().split("\x1f")[start::2] for start in (0, 1))
    return [(each, int(end.split()[0])) for each, end in zip(texts, ends, strict=False)]


def modules_of(*args):
    """Return the modules that are loaded when the command ends."""
    report = "import atexit, sys\natexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
    done = run(*args, code=report + DPCALIB)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_closed_forms_need_no_numpy():
    commands = (
        PLAIN,
        (*PLAIN, "--json"),
        (*PLAIN, "--steps", "1000", "--notion", "zcdp"),
        ("epsilon", "--sigma", "2", "--delta", "1e-5"),
        ("delta", "--sigma", "2", "--epsilon", "1"),
        ("steps", "--sigma", "20", "--epsilon", "1", "--delta", "1e-5"),
        ("convert", "--rho", "0.1", "--delta", "1e-5"),
        ("explain", "--sigma", "2", "--delta", "1e-5"),
        ("explain", "--epsilon", "1", "--delta", "1e-5", "--relation", "replace-one"),
        ("--help",),
        ("sigma", "--help"),
    )
    done = run(json.dumps(commands), code=SEVERAL)
    ends = [end.split() for end in done.stdout.split("\x1f")[1::2]]
    for args, (code, *loaded) in zip(commands, ends, strict=True):
        assert code == "0", (args, done.stderr)
        assert "click" in loaded
        assert {"numpy", "scipy", "rich"}.isdisjoint(loaded), args


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
def test_piped_output_is_plain_text(environment):
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


@needs_terminal
@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_table_has_a_frame_unless_no_color(no_color):
    ((text, code),) = shown(PLAIN, no_color=no_color)
    assert code == 0
    assert "ADD_OR_REMOVE_ONE" in text
    assert (ESCAPE in text) is (not no_color)


LONG_NAME = "the mean age of everybody who came to the spring meeting by train, bus or bicycle " * 2
PLAN = f"""
schema = "dpcalib.plan/1"
name = "{LONG_NAME}"
unit = "one member of the association, whatever she or he answered in the questionnaire"
[budget]
epsilon = 1.0
delta = 1e-6
[[part]]
name = "{LONG_NAME}"
type = "ZeroConcentratedDP"
rho = 0.004
[[part]]
name = "count"
type = "Gaussian"
noise_multiplier = 30
"""
AUDITED = """
pair = ([1.0], [1.0, 2.0])
def count(data, rng):
    return rng.laplace(len(data), 9.0)
"""


@needs_terminal
@pytest.mark.parametrize(("columns", "no_color"), [(60, ""), (60, "1"), (80, "1"), (120, "")])
def test_no_line_is_wider_than_the_terminal(columns, no_color, tmp_path):
    plan, module = tmp_path / "plan.toml", tmp_path / "audited.py"
    plan.write_text(PLAN, encoding="utf-8")
    module.write_text(AUDITED, encoding="utf-8")
    expected = (
        (PLAIN, 0),
        ((*PLAIN, "-q", "5"), 2),
        ((*PLAIN, "--batch-size", "256"), 2),
        (("sampling-probability", "--sigma", "1", "--noise", "1"), 2),
        (("sampling-probability", "--help"), 0),
        (("explain", "--sigma", "2", "--delta", "1e-5"), 0),
        (("account", str(plan)), 0),
        (("check", str(plan)), 0),
        (("audit", "audited:count", "--claim", str(plan), "--runs", "10"), 0),
        (("--help",), 0),
    )
    commands = [args for args, _ in expected]
    found = shown(*commands, columns=columns, no_color=no_color, cwd=tmp_path)
    for (args, code), (text, ended) in zip(expected, found, strict=True):
        assert ended == code, text
        lines = ANSI.sub("", text).splitlines()
        assert max(map(len, lines)) <= columns, (args, lines)


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is full")
@pytest.mark.parametrize("args", [PLAIN, (*PLAIN, "--json"), ("--help",), ("sigma", "--help")])
def test_an_answer_that_cannot_be_written(args):
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", DPCALIB, *args],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert done.stderr == "Error: Reading or writing failed: No space left on device.\n"


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is full")
def test_an_error_keeps_its_exit_code_where_it_cannot_be_written():
    with FULL.open("w") as full:
        for out, code in ((subprocess.PIPE, 2), (full, 2)):
            bad = [sys.executable, "-c", DPCALIB, *PLAIN, "-q", "5"]
            done = subprocess.run(bad, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
            assert done.returncode == code


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
def test_an_interrupt_has_an_exit_code_of_its_own():
    # a shell starts background jobs with interrupts ignored, and so their children
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    with subprocess.Popen(
        [sys.executable, "-c", heed + DPCALIB, *PLAIN, "--batch"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdin.write("{}\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["epsilon"] <= 1  # it is running
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
    assert process.returncode == 130
    assert told.strip() == "Interrupted."


# Complete several command lines in one process.
COMPLETE = """
import json, os, sys
from privacy.cli import main
for words in json.loads(sys.argv[1]):
    os.environ |= {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    try:
        main(prog_name="dpcalib")
    except SystemExit:
        print(end="\\x1f", flush=True)
"""


def test_completion_in_a_shell():
    expected = {
        "dpcalib si": "sigma",
        "dpcalib sigma --rel": "--relation",
        "dpcalib sigma --relation re": "replace-one",
        "dpcalib sigma --notion z": "zcdp",
        "dpcalib convert --conversion c": "classic",
    }
    done = run(json.dumps([*expected]), code=COMPLETE, _DPCALIB_COMPLETE="bash_complete")
    *texts, end = done.stdout.split("\x1f")
    assert end == "", done.stderr
    for (words, found), text in zip(expected.items(), texts, strict=True):
        assert found in text, words


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
