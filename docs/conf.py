"""Sphinx configuration. Build with ``sphinx-build -W -n docs docs/_build``."""

import html
import importlib.metadata
import re
from typing import Any

import ziamath
from docutils.nodes import SkipNode, Text

import bandits
import privacy
import privacy.audit

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
    "sphinxcontrib.bibtex",
]
bibtex_bibfiles = ["references.bib"]
bibtex_reference_style = "author_year"
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True
html_math_renderer = "drawn"
# Only what a reader would type.
copybutton_prompt_text = r">>> |\.\.\. |\$ |> "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

html_theme = "furo"
html_title = "dpcalib"
html_static_path = ["_static"]
html_css_files = ["site.css"]

smartquotes_action = "qe"  # options keep their two hyphens
# Single backticks in docstrings mark code, not references.
default_role = "code"
# In environments of their own (tests/interop).
autodoc_mock_imports = ["jax_privacy", "opacus", "opendp", "pipeline_dp"]
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
# Not documented here: type variables, aliases, and base classes.
nitpick_ignore_regex = [
    (
        "py:.*",
        r"(.*\.)?(Figure|Array|ArrayLike|NDArray|Interval|Target|Indices|Learner|Cells|Notion|Conversion|Seek|_?Kind|Self|Result|BestOf|_?T|M|_B|_Options)",
    ),
    ("py:.*", r"(dp_accounting|hypothesis|np|pipeline_dp)\..*"),
]
# Inventories of the names that the pages use, in Sphinx's text format, so that the build needs no
# network. A link to a name that is missing there is an error: add a line.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", "inventories/python.txt"),
    "numpy": ("https://numpy.org/doc/stable", "inventories/numpy.txt"),
}


ALIASES = (
    (
        (
            r"([\w.]*Buffer \| ~?)?numpy\._typing\._array_like\._SupportsArray.*?"
            r"_NestedSequence\[complex \| bytes \| str\]"
        ),
        "numpy.typing.ArrayLike",
    ),
    (
        r"numpy\.ndarray\[[^][]*(?:\[[^][]*\])?[^][]*, ~?numpy\.dtype\[([^][]+)\]\]",
        r"numpy.typing.NDArray[\1]",
    ),
    (r"numpy\.random\.(bit_generator|_generator)\.", "numpy.random."),
)


def to_public_name(_app: Any, env: Any, node: Any, content: Any) -> Any:
    """Resolve ``privacy.module.Name`` to the documentation of ``privacy.Name``."""
    target = node.get("reftarget", "")
    name = target.rpartition(".")[2]
    for package in (privacy, privacy.audit, bandits):
        if name in package.__all__:
            public = f"{package.__name__}.{name}"
            return env.get_domain("py").resolve_xref(
                env, node["refdoc"], env.app.builder, "obj", public, node, content
            )
    return None


def readable(_app: Any, *told: Any) -> tuple[str | None, str | None]:
    """Return a signature and its result with the public names of NumPy's types."""
    *_, signature, result = told
    for pattern, name in ALIASES:
        signature = signature and re.sub(pattern, name, signature)
        result = result and re.sub(pattern, name, result)
    return signature, result


def without_last_blank(_app: Any, _name: str, text: list[str]) -> None:
    """Remove the blank line at the end of a block, which doctest needs after the last output."""
    text[0] = text[0].replace("\n\n```\n", "\n```\n")


def dashes(_app: Any, doctree: Any) -> None:
    """Write the dash between a parameter and its meaning, which `smartquotes_action` leaves."""
    for text in list(doctree.findall(Text)):
        if text.astext() == " -- ":
            text.parent.replace(text, Text(" – "))


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
    app.connect("autodoc-process-signature", readable)
    app.connect("doctree-read", dashes)
    app.connect("source-read", without_last_blank)
