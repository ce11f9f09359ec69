"""Sphinx configuration. Build with ``sphinx-build -W -n docs docs/_build``."""

import importlib.metadata
from typing import Any

import bandits
import privacy

project = "dpcalib"
author = "the dpcalib authors"
copyright = author
release = importlib.metadata.version("dpcalib")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "dpcalib"
html_static_path = ["_static"]
html_css_files = ["wrapped.css"]

# Single backticks in docstrings mark code, not references.
default_role = "code"
# In environments of their own (tests/interop).
autodoc_mock_imports = ["jax_privacy", "opacus", "opendp", "pipeline_dp"]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
# Not documented here: type variables, classes of other libraries, the base class of mechanisms.
nitpick_ignore_regex = [
    (
        "py:.*",
        r"(.*\.)?(Figure|Array|Interval|Target|Indices|Learner|Cells|Notion|Conversion|Seek|_?Kind|Self|Result|BestOf|_?T|M|_B|_Options)",
    ),
    ("py:.*", r"(collections\.abc|datetime|dp_accounting|fractions|os|typing|numpy)\..*"),
    ("py:.*", r"(hypothesis\..*|pipeline_dp\..*|np\..*|ArrayLike|NDArray)"),
]


def to_public_name(_app: Any, env: Any, node: Any, content: Any) -> Any:
    """Resolve ``privacy.module.Name`` to the documentation of ``privacy.Name``."""
    target = node.get("reftarget", "")
    name = target.rpartition(".")[2]
    for package in (privacy, bandits):
        if name in package.__all__:
            public = f"{package.__name__}.{name}"
            return env.get_domain("py").resolve_xref(
                env, node["refdoc"], env.app.builder, "obj", public, node, content
            )
    return None


def without_last_blank(_app: Any, _name: str, text: list[str]) -> None:
    """Remove the blank line at the end of a block, which doctest needs after the last output."""
    text[0] = text[0].replace("\n\n```\n", "\n```\n")


def setup(app: Any) -> None:
    """Connect the event handlers."""
    app.connect("missing-reference", to_public_name)
    app.connect("source-read", without_last_blank)
