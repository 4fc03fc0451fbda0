"""Every field of a wanted study as an option of a command: names, bounds' words and defaults are the contract's own.

Guarantee: a field that is added to the contract is an option at once, but for those in `BY_COMMAND`, which the command
writes in a form of its own; what nobody says is not sent, so that the service's default counts.
"""

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, get_args

import typer
from pydantic.fields import FieldInfo

from controlplane.contract.bodies.studies import StudyCreate
from controlplane.terminal.assignments import parse_assignments
from controlplane.terminal.service_connection import fail

Result = TypeVar("Result")
BY_COMMAND = ("pool", "objective", "objective_q", "constraints", "max_trials", "load")
_BOUNDS = re.compile(r"(\d{1,9})\.\.(\d{1,9})(:log)?")
_BETWEEN = re.compile(r",(?=\w+=)")


def with_study_fields(command: Callable[..., Result]) -> Callable[..., Result]:
    """Decorator for a typer command: its parameter `fields`, a mapping, becomes the options, and is given what was said
    of them, by the field's name, as the contract takes it."""
    own = inspect.signature(command, eval_str=True)

    def called(**values: Any) -> Result:
        said = {name: value for name in FIELDS if (value := values.pop(name)) not in (None, [])}
        return command(fields={name: _READ.get(name, _as_it_is)(value) for name, value in said.items()}, **values)

    parameters = []
    for name, parameter in own.parameters.items():
        more = [_option(field) for field in FIELDS] if name == "fields" else [parameter]
        parameters += [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in more]
    called.__name__, called.__doc__ = command.__name__, command.__doc__
    called.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called


def space_of(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """["max_num_seqs=16..256:log", "quantization=none,int8"] as `StudyCreate.space`. Leaves with status 2 for what is
    no range. Values that hold commas themselves, such as a schedule of drafts, are a JSON list."""
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        knob, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not knob or not values:
            fail(f"--space: wants knob=LOW..HIGH, knob=LOW..HIGH:log or knob=VALUE,VALUE, got {text!r}")
        if bounds := _BOUNDS.fullmatch(values):
            found[knob] = {"minimum": int(bounds[1]), "maximum": int(bounds[2]), "log": bool(bounds[3])}
        elif values.startswith("["):
            found[knob] = {"choices": _listed(values)}
        else:
            found[knob] = {"choices": [_value(one.strip()) for one in values.split(",")]}
    return found


def suggested_of(texts: Sequence[str]) -> list[dict[str, Any]]:
    """["max_num_seqs=64,quantization=int8"] as `StudyCreate.suggested`: one configuration a text."""
    return [parse_assignments(_BETWEEN.split(text), "--suggested") for text in texts]


def _rollout_of(texts: Sequence[str]) -> dict[str, Any]:
    return parse_assignments(list(texts), "--rollout", "field=value")


def _listed(text: str) -> list[Any]:
    try:
        found = json.loads(text)
    except ValueError:
        fail(f"--space: {text!r} is no JSON list")
    return list(found)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _as_it_is(value: Any) -> Any:
    return value


_READ: Mapping[str, Callable[[Any], Any]] = {"space": space_of, "suggested": suggested_of, "rollout": _rollout_of}
_WRITTEN = {
    "space": "KNOB=LOW..HIGH[:log]|KNOB=VALUE,...",
    "suggested": "KNOB=VALUE,KNOB=VALUE",
    "rollout": "FIELD=VALUE",
}
FIELDS = {name: field for name, field in StudyCreate.model_fields.items() if name not in BY_COMMAND}


def _option(name: str) -> inspect.Parameter:
    field = FIELDS[name]
    flag = f"--{name.replace('_', '-')}"
    words = f"{field.description}{'; repeatable' if name in _READ else ''}{_usual(field)}".replace("`", "")
    words = words[:1].upper() + words[1:]
    if name in _READ:
        option = typer.Option(None, flag, metavar=_WRITTEN[name], help=words)
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=list[str] | None)
    kind = next(one for one in (*get_args(field.annotation), field.annotation) if one is not type(None))
    flags = f"{flag}/--no-{flag[2:]}" if kind is bool else flag
    option = typer.Option(None, flags, help=words)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind | None)


def _usual(field: FieldInfo) -> str:
    """The default, in words."""
    usual = field.default
    if usual in (None, "", [], {}):
        return "."
    told = ("yes" if usual else "no") if isinstance(usual, bool) else f"{usual:g}"
    return f".  [default: {told}]"
