"""Compare the table of public names with the packages."""

import importlib.util
from pathlib import Path

import bandits
import privacy
import privacy.audit

DOCS = Path(__file__).resolve().parents[2] / "docs"


def generator():
    spec = importlib.util.spec_from_file_location("names", DOCS / "names.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_names_is_current():
    written = (DOCS / "names.md").read_text(encoding="utf-8")
    assert generator().page() == written, "Run: python docs/names.py"


def test_the_table_has_every_public_name_once():
    paths = [path for _, path in generator().reference()]
    assert len(paths) == len(set(paths))
    for package in (privacy, privacy.audit, bandits):
        documented = {
            path.rpartition(".")[2] for path in paths if path.rpartition(".")[0] == package.__name__
        }
        assert documented == set(package.__all__)


def test_every_name_has_a_meaning():
    names = generator()
    for _, path in names.reference():
        assert names.meaning(names.resolved(path)).endswith((".", ":"))
