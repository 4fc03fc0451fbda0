"""`tailwright profiles`: services by name, each with its token file, so that no command has to be told again."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from controlplane.contract.errors import BadSettings
from controlplane.serving.tls import ClientFiles
from controlplane.terminal.output.printing import Json, print_json, print_table
from controlplane.terminal.profiles import Profile, Profiles, profiles_file, read_profiles, write_profiles
from controlplane.terminal.service_choice import Source, choose
from controlplane.terminal.service_command import profile_names
from controlplane.terminal.service_connection import fail
from controlplane.terminal.subcommand import subcommand

app = subcommand(help="Services by name, with their token files.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The profile's name.", autocompletion=profile_names)]


@app.command("list")
def listing(as_json: Json = False) -> None:
    """Every profile; the one that is used where nothing else says which service is marked."""
    profiles = _read()
    if as_json:
        items = [
            {"name": name, "is_default": name == profiles.default, **_told(profile)}
            for name, profile in sorted(profiles.named.items())
        ]
        print_json({"items": items, "next": None})
    elif not profiles.named:
        typer.echo(f"no profile in {profiles_file()}", err=True)
    else:
        rows = [
            ("*" if name == profiles.default else "", name, profile.server, str(profile.token_file or "-"))
            for name, profile in sorted(profiles.named.items())
        ]
        print_table(("", "name", "server", "token file"), rows)


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Its name.")],
    server: Annotated[str, typer.Option(help="URL of the control plane.")],
    token_file: Annotated[Path | None, typer.Option(help="File that holds the token; it is not copied.")] = None,
    ca_file: Annotated[Path | None, typer.Option(help="PEM file of whom to trust as the control plane.")] = None,
    client_cert: Annotated[Path | None, typer.Option(help="PEM file of a certificate to show it.")] = None,
    client_key: Annotated[Path | None, typer.Option(help="PEM file of that certificate's key.")] = None,
    use: Annotated[bool, typer.Option("--use", help="Use it from now on.")] = False,
    as_json: Json = False,
) -> None:
    """Keep a service under a name, or change what is kept there. The first one is used from then on."""
    files = {"token_file": token_file, "ca_file": ca_file, "client_cert": client_cert, "client_key": client_key}
    for option, file in files.items():
        if file is not None and not file.expanduser().is_file():
            fail(f"--{option.replace('_', '-')}: {file} is not a file")
    made = Profile(server, **{key: file and file.expanduser().absolute() for key, file in files.items()})
    try:
        ClientFiles(made.ca_file, made.client_cert, made.client_key)
        choose(Source(), Source(), Source.of_profile(made), is_named=True, files=ClientFiles())
        profiles = _read().with_profile(name, made)
    except BadSettings as error:
        fail(error.message)
    _write(replace(profiles, default=name) if use or len(profiles.named) == 1 else profiles, name, as_json)


@app.command("use")
def use(name: Name, as_json: Json = False) -> None:
    """Use this profile where nothing else says which service: no option, no variable."""
    profiles = _read()
    try:
        profiles.profile(name)
    except BadSettings as error:
        fail(error.message)
    _write(replace(profiles, default=name), name, as_json)


@app.command("remove")
def remove(name: Name, as_json: Json = False) -> None:
    """Forget a profile; its files stay as they are."""
    try:
        _write(_read().without(name), name, as_json)
    except BadSettings as error:
        fail(error.message)


def _read() -> Profiles:
    try:
        return read_profiles(profiles_file())
    except BadSettings as error:
        fail(error.message)


def _write(profiles: Profiles, name: str, as_json: bool) -> None:
    """Says of `name` how it is kept now."""
    try:
        write_profiles(profiles_file(), profiles)
    except OSError as error:
        fail(f"{profiles_file()} cannot be written: {error.strerror}", 1)
    profile = profiles.named.get(name)
    if as_json:
        told = {} if profile is None else _told(profile)
        print_json({"name": name, "is_default": profiles.default == name, **told})
    elif profile is None:
        typer.echo(f"profile {name} is removed" + ("" if profiles.default else "; none is used now"))
    else:
        in_use = ", which is used from now on" if profiles.default == name else ""
        typer.echo(f"profile {name}: {profile.server}{in_use}")


def _told(profile: Profile) -> dict[str, str | None]:
    return {key: None if value is None else str(value) for key, value in asdict(profile).items()}
