"""The settings of a model as options of a typer command."""

import inspect
import os
from collections.abc import Callable
from typing import Any, TypeVar

import typer

from controlplane.contract.errors import BadSettings
from controlplane.terminal.config_file import FILE
from controlplane.terminal.service_connection import fail
from controlplane.terminal.setting_sources import PAIRS, Setting, checked, given, settings_of

Result = TypeVar("Result")


def with_settings(*prefixes: str) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Decorator for a typer command: its parameter `settings` becomes an option for each setting of the model that it
    is annotated with, and is called with that model.

    `prefixes`: of the variables; TAILWRIGHT_COMMAND_ goes for every command of `tailwright`. Leaves with status 2 and
    a line when a setting is wrong.
    """

    def decorate(command: Callable[..., Result]) -> Callable[..., Result]:
        signature = inspect.signature(command, eval_str=True)
        model = signature.parameters["settings"].annotation
        settings = settings_of(model)

        def called(context: typer.Context, **values: Any) -> Result:
            options = {setting.name: values.pop(setting.name) for setting in settings}
            flags = {name: value for name, value in options.items() if _from_command_line(context, name)}
            every = prefixes + ((f"{context.auto_envvar_prefix}_",) if context.auto_envvar_prefix else ())
            try:
                taken = given(
                    settings, flags, every, os.environ, context.default_map or {}, str(context.meta.get(FILE))
                )
                made = checked(model, taken, prefixes[0])
                return command(settings=made, **values)
            except BadSettings as error:
                fail(error.message)

        parameters = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
        for name, parameter in signature.parameters.items():
            more = [_option(setting, prefixes[0]) for setting in settings] if name == "settings" else [parameter]
            parameters += [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in more]
        called.__name__, called.__doc__ = command.__name__, command.__doc__
        called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return called

    return decorate


def _from_command_line(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _option(setting: Setting, prefix: str) -> inspect.Parameter:
    about = [f"env var: {prefix}{setting.name.upper()}{', JSON' if setting.form == PAIRS else ''}"]
    about += [f"default: {setting.default}"] if setting.default else []
    about += [setting.bounds] if setting.bounds else []
    about += ["required"] if setting.field.is_required() else []
    words = f"{setting.field.description}  [{'; '.join(about)}]"
    # `given` reads the variables, which the help names one of: typer's own would be a second name for the same.
    option = typer.Option(
        None, *setting.flags, metavar=setting.form or None, help=words, allow_from_autoenv=False, show_envvar=False
    )
    annotation = {"": bool | None, PAIRS: list[str] | None}.get(setting.form, str | None)
    return inspect.Parameter(setting.name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=annotation)
