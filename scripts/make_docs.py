"""Write the generated pages of docs/: config.md (every key) and commands.md (every command). A test keeps them current.

python scripts/make_docs.py
"""

from __future__ import annotations

import types
import typing
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tamiz import config
from tamiz.cli import app
from tamiz.decide.recipes import LINE_RULES, RECIPES
from tamiz.measure.table import GROUPS

DOCS = Path(__file__).resolve().parents[1] / "docs"

HEAD = """# The config

Made by `scripts/make_docs.py` from the code; edit there.

One YAML file is one config. Unknown keys, wrong types and impossible values are errors that name the key.
`--set a.b=value` puts a YAML value over one key. Relative paths start at the config's folder, then at the working
directory.
"""

RULES = """A recipe left out or set to null is off; so is a rule set to null. A document fails a `_min` rule when its
metric is below the bound, a `_max` rule when it is above; equality passes, and so does a metric that is null.
"""

EXITS = "Exit codes: 0 done; 1 the run failed; 2 the config or command line is wrong; 130 interrupted, resumable."

SECTIONS: dict[str, type[BaseModel]] = {
    "": config.Config,
    "sources.NAME (kind: sample)": config.SampleSource,
    "sources.NAME (kind: parquet, jsonl)": config.FileSource,
    "sources.NAME (kind: hub)": config.HubSource,
    "sources.NAME.where.COLUMN": config.Condition,
    "language": config.Language,
    "domain": config.Domain,
    "dedup": config.Dedup,
    "dedup.minhash": config.MinHash,
    "pack": config.Pack,
    "quarantine": config.Quarantine,
    "run": config.Run,
    "run.hub_cache": config.HubCache,
}


def describe_type(kind: Any) -> str:
    """A type annotation as a user would say it."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return describe_type(arguments[0])
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe_type(argument) for argument in arguments)
    if origin is list:
        return f"list of {describe_type(arguments[0])}"
    if origin is dict:
        return "mapping"
    if kind is type(None):
        return "null"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "section"
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}.get(kind, str(kind))


def describe_default(field: FieldInfo) -> str:
    """The default, or that there is none."""
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, BaseModel):
        return "its defaults"
    if value is None:
        return "null"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def write_section(title: str, model: type[BaseModel]) -> list[str]:
    """A heading, the model's docstring, a table of its keys."""
    lines = [f"## `{title}`" if title else "## Top level", ""]
    if model.__doc__ and model is not config.Config:
        lines += [" ".join(model.__doc__.split()), ""]
    lines += ["| key | type | default | what it is |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        if name == "folder":
            continue
        kind = describe_type(field.annotation).replace("|", "\\|")
        lines.append(f"| `{field.alias or name}` | {kind} | {describe_default(field)} | {field.description or ''} |")
    return [*lines, ""]


def write_config() -> str:
    """docs/config.md."""
    lines = [HEAD]
    for title, model in SECTIONS.items():
        lines += write_section(title, model)
    lines += ["## `rules`", "", RULES]
    for recipe, bounds in RECIPES.items():
        lines += [f"### `rules.{recipe}`", "", "| rule | published |", "|---|---|"]
        lines += [f"| `{key}` | {bound:g} |" for key, bound in bounds.items()]
        if recipe == "c4":
            lines += [f"| `{key}` (rewrites lines) | {str(value).lower()} |" for key, value in LINE_RULES.items()]
        lines.append("")
    lines += ["## Metrics", "", "The columns of the verdicts, by the group that is measured together.", ""]
    lines += ["| metric | group | type |", "|---|---|---|"]
    lines += [f"| `{name}` | {group} | {kind} |" for group, metrics in GROUPS.items() for name, kind in metrics.items()]
    return "\n".join(lines).rstrip() + "\n"


def write_commands() -> str:
    """docs/commands.md: the help of every command."""
    command = typer.main.get_command(app)
    lines = ["# The commands", "", "Made by `scripts/make_docs.py` from the code; edit there.", ""]
    lines += [EXITS, ""]
    for name in command.list_commands(None):  # type: ignore[attr-defined]
        one = command.get_command(None, name)  # type: ignore[attr-defined]
        context = one.make_context(f"tamiz {name}", ["x"], resilient_parsing=True)
        context.max_content_width = 100
        lines += [f"## `tamiz {name}`", "", "```", one.get_help(context).rstrip(), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


PAGES = {"config.md": write_config, "commands.md": write_commands}


def main() -> None:
    for name, write in PAGES.items():
        (DOCS / name).write_text(write(), encoding="utf-8")


if __name__ == "__main__":
    main()
