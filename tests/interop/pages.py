"""Run the blocks marked `py` of a page. Their libraries are not in the environment of the tests."""

import doctest
import io
import re
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "interop"
FENCE = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(name, **given):
    """Run the examples of a page in order, with the given names; raise if an output differs."""
    blocks = FENCE.findall((PAGES / name).read_text(encoding="utf-8"))
    assert blocks
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), given, name, name, 0)
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=report.write)
    assert runner.tries
    assert not runner.failures, report.getvalue()
