"""The documentation says what the code does."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from tamiz.config_file import load_config

ROOT = Path(__file__).resolve().parents[1]


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["config.md", "commands.md"])
def test_generated_pages_are_current(page: str) -> None:
    written = load_script("make_docs").PAGES[page]()
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == written, "run: python scripts/make_docs.py"


@pytest.mark.parametrize(
    "page", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", *sorted(p.name for p in (ROOT / "docs").glob("*.md"))]
)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page if (ROOT / page).exists() else ROOT / "docs" / page
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (path.parent / target).exists(), target


def test_the_make_targets_that_readme_names_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"^    make ([a-z-]+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= targets | {"help"}


def test_every_key_has_a_description() -> None:
    for model in load_script("make_docs").SECTIONS.values():
        missing = [name for name, field in model.model_fields.items() if not field.description]
        assert set(missing) <= {"folder", "kind"}, model.__name__


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.name)
def test_overrides_in_a_config_s_comments_work(path: Path) -> None:
    for quoted, plain in re.findall(r"SET=(?:'([^']+)'|\"([^\"]+)\")", path.read_text(encoding="utf-8")):
        load_config(path, [quoted] if quoted else plain.split())
