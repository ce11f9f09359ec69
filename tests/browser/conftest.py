"""A headless browser; without one, these tests are skipped."""

import shutil

import pytest


@pytest.fixture(scope="module")  # playwright's event loop must not run in other tests
def browser():
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    with sync.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium)
        yield opened
        opened.close()


NAMELESS = """() => {
    const controls = [...document.querySelectorAll("input, select, textarea, button")];
    return controls.filter((one) => {
        const described = (one.getAttribute("aria-describedby") ?? "").split(" ").filter(Boolean);
        const known = described.every((id) => document.getElementById(id));
        return !known || !(one.labels?.[0] ?? one).textContent.trim();
    }).map((one) => one.outerHTML);
}"""


@pytest.fixture
def nameless():
    """A script that returns the controls without a name, or with a description that is missing."""
    return NAMELESS
