"""Sphinx configuration. Build with ``sphinx-build -W -n docs docs/_build``."""

import html
import importlib.metadata
import re
from typing import Any

import ziamath
from docutils.nodes import SkipNode

import bandits
import privacy

project = "dpcalib"
author = "the dpcalib authors"
copyright = author
release = importlib.metadata.version("dpcalib")

extensions = [
    "myst_nb",  # also parses the other pages
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
nb_execution_raise_on_error = True
nb_execution_timeout = 120
html_math_renderer = "drawn"
# Only what a reader would type.
copybutton_prompt_text = r">>> |\.\.\. |\$ |> "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

html_theme = "furo"
html_title = "dpcalib"
html_static_path = ["_static"]
html_css_files = ["site.css"]

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


def draw(latex: str, *, inline: bool) -> str:
    """Return a formula as an image in the text, which needs no script, font or network."""
    latex = re.sub(r"(\\operatorname\{\w+\})", r"\1\\,", latex)  # ziamath adds no space
    drawn = ziamath.Latex(latex, size=17, color="currentColor", inline=inline)
    style = f"vertical-align: {drawn.getyofst():.1f}px"
    label = html.escape(latex, quote=True)
    return drawn.svg().replace("<svg ", f'<svg role="img" aria-label="{label}" style="{style}" ', 1)


def formula(translator: Any, node: Any) -> None:
    """Write a formula of a line."""
    translator.body.append(draw(node.astext(), inline=True))
    raise SkipNode


def displayed_formula(translator: Any, node: Any) -> None:
    """Write a displayed formula."""
    translator.body.append(f'<div class="math">{draw(node.astext(), inline=False)}</div>')
    raise SkipNode


def setup(app: Any) -> None:
    """Connect the event handlers."""
    ziamath.config.precision = 1
    app.add_html_math_renderer("drawn", (formula, None), (displayed_formula, None))
    app.connect("missing-reference", to_public_name)
    app.connect("source-read", without_last_blank)
