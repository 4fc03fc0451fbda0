"""What commands print: tables and records for people, the API's bodies for programs (`--json`).

Guarantee: with --json standard output is one JSON document, or empty where the service answers without a body. A list
is `{"items": [...], "next": ...}` as the API's pages are; it is complete, and `next` null, unless --limit was given.
Text that goes into a pipe is never cut or wrapped.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import typer
from pydantic import BaseModel

from controlplane.contract.duration_text import duration_text
from controlplane.terminal.output.table_lines import one_line, table_lines

M = TypeVar("M", bound=BaseModel)

Json = Annotated[bool, typer.Option("--json", help="Print the API's body, for programs.")]
Columns = Mapping[str, Callable[[M], str]]
"""Header to what stands under it."""


def print_json(body: BaseModel | Mapping[str, Any], *, in_one_line: bool = False) -> None:
    """One document; `in_one_line` where several follow each other."""
    document = body.model_dump(mode="json") if isinstance(body, BaseModel) else body
    typer.echo(json.dumps(document, indent=None if in_one_line else 2, ensure_ascii=False))


def show_list(
    items: Sequence[M], columns: Columns[M], *, as_json: bool, following: str | None = None, what: str = "nothing"
) -> None:
    """`following`: the API's `next`. `what` there is none of, told on standard error."""
    if as_json:
        print_json({"items": [item.model_dump(mode="json") for item in items], "next": following})
    elif not items:
        typer.echo(f"no {what}", err=True)
    else:
        print_items(items, columns)
        if following is not None:
            typer.echo(f"there are more: --cursor {following}", err=True)


def print_items(items: Sequence[M], columns: Columns[M]) -> None:
    print_table(list(columns), [[cell(item) for cell in columns.values()] for item in items])


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for line in table_lines(header, rows, terminal_width()):
        typer.echo(line)


def terminal_width() -> int | None:
    """None where no terminal shows it."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def show_record(item: BaseModel, *, as_json: bool, leave_out: Sequence[str] = ()) -> None:
    """A line a field, what it holds under it; absent and empty ones, and `leave_out`, are not shown."""
    if as_json:
        print_json(item)
        return
    for line in record_lines({k: v for k, v in item.model_dump().items() if k not in leave_out}):
        typer.echo(line)


def show_done(message: str, *, as_json: bool) -> None:
    """Of a call that the service answers without a body."""
    if not as_json:
        typer.echo(message)


def record_lines(values: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Names in front of their values; a mapping's, and a list's of mappings, indented under its name."""
    shown = {name: value for name, value in values.items() if value is not None and value not in ("", [], {}, ())}
    labels = {name: _name(name) if _name(name) == name or _name(name) not in shown else name for name in shown}
    labels = {name: label.replace("_", " ") for name, label in labels.items()}
    width = max((len(labels[name]) for name, value in shown.items() if not _is_nested(value)), default=0)
    for name, value in shown.items():
        if not _is_nested(value):
            yield f"{indent}{labels[name]:<{width}}  {value_text(name, value)}"
            continue
        yield f"{indent}{labels[name]}"
        for part in [value] if isinstance(value, Mapping) else value:
            lines = record_lines(part, "") if isinstance(part, Mapping) else iter([value_text(name, part)])
            mark = "" if isinstance(value, Mapping) else "- "
            for place, line in enumerate(lines):
                yield f"{indent}  {mark if place == 0 else ' ' * len(mark)}{line}"


def value_text(name: str, value: Any) -> str:
    """A value in words; `name` says its unit."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return moment_text(value)
    if isinstance(value, int | float) and _is_duration(name):
        return duration_text(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(value_text(name, one) for one in value)
    return one_line(str(value))


def moment_text(moment: datetime | None, otherwise: str = "-") -> str:
    """In UTC, to the second."""
    return otherwise if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def labels_text(labels: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in labels.items())


def _is_duration(name: str) -> bool:
    return name.endswith("_s") and not name.endswith("_per_s")


def _name(name: str) -> str:
    """Without the unit that its value is told with."""
    return (name.removesuffix("_s") if _is_duration(name) else name).removesuffix("_at")


def _is_nested(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(isinstance(one, Mapping | list | tuple) for one in value) or sum(len(str(v)) for v in value) > 100
    return isinstance(value, Mapping)
