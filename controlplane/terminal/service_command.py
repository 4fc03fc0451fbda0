"""Commands that call the service: the options that say which, and the connection, written once."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from controlplane.contract.errors import BadSettings
from controlplane.terminal.profiles import profiles_file, read_profiles
from controlplane.terminal.service_choice import SERVER, Choice, Source, choose
from controlplane.terminal.service_connection import CLIENT_FILES, TIMEOUT_S, fail, reaching

Result = TypeVar("Result")


def profile_names(incomplete: str) -> list[str]:
    """For the shell's completion, which shows no error."""
    try:
        named = read_profiles(profiles_file()).named
    except BadSettings:
        return []
    return [name for name in sorted(named) if name.startswith(incomplete)]


Server = Annotated[
    str | None, typer.Option(envvar="TAILWRIGHT_SERVER_URL", help=f"URL of the control plane.  [default: {SERVER}]")
]
Token = Annotated[
    str | None, typer.Option(envvar="TAILWRIGHT_TOKEN", help="Bearer token; others on this machine may see it.")
]
TokenFile = Annotated[
    Path | None, typer.Option(envvar="TAILWRIGHT_TOKEN_FILE", help="File that holds the token.", dir_okay=False)
]
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile",
        envvar="TAILWRIGHT_PROFILE",
        help="A service of `tailwright profiles list`, with its token.",
        autocompletion=profile_names,
    ),
]
OPTIONS = {"server": Server, "token": Token, "token_file": TokenFile, "profile": ProfileName}


def calls_service(*, timeout_s: float = TIMEOUT_S) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Decorator for a typer command: its parameter `client` becomes the options that say which service is meant, and
    is given that service's client. What the service refuses is one line, and status 1.

    A command that may do without the service has a parameter `choice` instead, and reaches it by itself.
    """

    def decorate(command: Callable[..., Result]) -> Callable[..., Result]:
        own = inspect.signature(command, eval_str=True)
        is_opened = "client" in own.parameters

        def called(context: typer.Context, **values: Any) -> Result:
            choice = chosen(context, {name: values.pop(name) for name in OPTIONS})
            if not is_opened:
                return command(choice=choice, **values)
            with reaching(choice, timeout_s=timeout_s) as client:
                return command(client=client, **values)

        kept = [one for name, one in own.parameters.items() if name not in ("client", "choice")]
        parameters = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
        parameters += [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in kept]
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=None)
            for name, annotation in OPTIONS.items()
        ]
        called.__name__, called.__doc__ = command.__name__, command.__doc__
        called.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return called

    return decorate


def chosen(context: typer.Context, given: Mapping[str, Any]) -> Choice:
    """The service that `given`, the values of `OPTIONS`, mean. Leaves with status 2 where something is wrong."""
    flags = {name for name in OPTIONS if _is_flag(context, name)}
    options = Source.of({name: value for name, value in given.items() if name in flags})
    around = Source.of({name: value for name, value in given.items() if name not in flags})
    is_named = "profile" in flags
    try:
        # Where the server is known without one, nobody's profiles matter: a daemon's unit may not even read them.
        profile = _profile(given["profile"]) if is_named or not (options.server or around.server) else None
        return choose(options, around, profile, is_named=is_named, files=CLIENT_FILES.get())
    except BadSettings as error:
        fail(error.message)


def _profile(name: str | None) -> Source | None:
    """The named one; without a name the default, where there is one."""
    profiles = read_profiles(profiles_file())
    wanted = name or profiles.default
    return None if wanted is None else Source.of_profile(profiles.profile(wanted))


def _is_flag(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
