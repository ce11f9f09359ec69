"""The pytest plugin: ``@pytest.mark.dp_claim(mechanism, significance=1e-6)``.

Every pytest run loads it, so it imports only pytest until a marked test runs.
"""

from collections.abc import Generator
from typing import Any

import pytest

MARK = "dp_claim"
_COUNT = pytest.StashKey[int]()
_KEY = "dp_claim"
_HELP = (
    "dp_claim(mechanism, significance=1e-6): audit a privacy claim with assert_not_falsified; "
    "the false positive rate of all marked tests together is at most the significance level"
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", _HELP)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Count the marked tests before any is deselected, to divide the significance level."""
    config.stash[_COUNT] = sum(item.get_closest_marker(MARK) is not None for item in items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Give a marked test its share of the significance level, and report its results."""
    mark = item.get_closest_marker(MARK)
    if mark is None:
        return (yield)
    from privacy.audit.assertions import CURRENT, Share, seed_of

    claim, significance = _arguments(*mark.args, **mark.kwargs)
    share = Share(claim, significance / item.config.stash[_COUNT], seed_of(item.nodeid))
    token = CURRENT.set(share)
    try:
        result = yield
    finally:
        CURRENT.reset(token)
        item.user_properties += [(_KEY, str(each)) for each in share.results]
    if not share.results:
        pytest.fail(
            "The test is marked dp_claim but made no audit. Call assert_not_falsified.",
            pytrace=False,
        )
    return result


def _arguments(mechanism: Any, significance: float = 1e-6) -> tuple[Any, float]:
    from privacy.audit.results import checked_significance

    return mechanism, checked_significance(significance)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the results."""
    reports = [
        (report.nodeid, told)
        for group in ("passed", "failed")
        for report in terminalreporter.getreports(group)
        for key, told in getattr(report, "user_properties", ())
        if key == _KEY and report.when == "call"
    ]
    if reports:
        terminalreporter.section("privacy claims")
        for name, told in sorted(reports):
            terminalreporter.write_line(f"{name}: {told}")
