"""Every field of a request's body as an option of a command: names, bounds' words and defaults are the contract's own.

Guarantee: a field that is added to the contract is an option at once, but for those that a command writes in a form of
its own; what nobody says is not sent (`said_of`), so that the service's default counts.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar, get_args

import typer
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from controlplane.terminal.service_connection import explain_values, fail

Result = TypeVar("Result")
Body = TypeVar("Body", bound=BaseModel)


@dataclass(frozen=True)
class Form:
    """How a field is written that is not one plain value. read: from one text, or from all of them if it repeats."""

    written: str
    read: Callable[[Any], Any]
    repeats: bool = False


class ContractOptions:
    """The options of one body. by_command: fields that the command writes itself; forms: by field."""

    def __init__(self, body: type[BaseModel], *, by_command: Sequence[str], forms: Mapping[str, Form]) -> None:
        self.by_command = by_command
        self._forms = forms
        self._fields = {name: field for name, field in body.model_fields.items() if name not in by_command}

    def __call__(self, command: Callable[..., Result]) -> Callable[..., Result]:
        """Decorator for a typer command: its parameter `fields`, a mapping, becomes the options, and is given what was
        said of them, by the field's name, as the contract takes it."""
        own = inspect.signature(command, eval_str=True)

        def called(**values: Any) -> Result:
            said = {name: value for name in self._fields if (value := values.pop(name)) not in (None, [])}
            return command(fields={name: self._read(name, value) for name, value in said.items()}, **values)

        parameters = []
        for name, parameter in own.parameters.items():
            more = [self._option(field) for field in self._fields] if name == "fields" else [parameter]
            parameters += [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in more]
        called.__name__, called.__doc__ = command.__name__, command.__doc__
        called.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return called

    def _read(self, name: str, value: Any) -> Any:
        return self._forms[name].read(value) if name in self._forms else value

    def _option(self, name: str) -> inspect.Parameter:
        field, form = self._fields[name], self._forms.get(name)
        flag = flag_of(name)
        words = f"{field.description}{'; repeatable' if form and form.repeats else ''}{_usual(field)}".replace("`", "")
        words = words[:1].upper() + words[1:]
        if form is not None:
            kind: Any = list[str] if form.repeats else str
            option = typer.Option(None, flag, metavar=form.written, help=words)
        else:
            kind = next(one for one in (*get_args(field.annotation), field.annotation) if one is not type(None))
            option = typer.Option(None, f"{flag}/--no-{flag[2:]}" if kind is bool else flag, help=words)
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind | None)


def flag_of(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def body_of(model: type[Body], said: Mapping[str, Any], options: Mapping[str, str] = MappingProxyType({})) -> Body:
    """Leaves with status 2 where the values are none that the body can have. options: by field, where it is not the
    field's own name."""
    try:
        return model.model_validate(said)
    except ValidationError as error:
        fail(explain_values(error, options_of(model, options)))


def options_of(model: type[BaseModel], options: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """As what each field of this body is typed."""
    return {name: flag_of(name) for name in model.model_fields} | dict(options)


def said_of(body: BaseModel) -> dict[str, Any]:
    """As JSON, without what nobody has said."""
    return body.model_dump(mode="json", exclude_unset=True)


def _usual(field: FieldInfo) -> str:
    """The default, in words."""
    usual = field.default
    if usual in (None, "", [], {}):
        return "."
    if isinstance(usual, list):
        return f".  [default: {','.join(map(str, usual))}]"
    told = ("yes" if usual else "no") if isinstance(usual, bool) else f"{usual:g}"
    return f".  [default: {told}]"
