"""`tailwright tls`: a fleet's own certificate authority, and the certificates of its servers and nodes, in a folder."""

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controlplane.contract.clock import utc_now
from controlplane.contract.errors import TailwrightError
from controlplane.terminal import extras
from controlplane.terminal.output.printing import Json, print_json
from controlplane.terminal.service_connection import fail
from controlplane.terminal.subcommand import subcommand

if TYPE_CHECKING:
    from controlplane.serving.authority import Authority

app = subcommand(no_args_is_help=True, help="Make, renew and revoke the certificates of a fleet.")

Dir = Annotated[Path, typer.Option(help="Folder of the CA; its ca.key signs everything: keep it off the servers.")]
FOLDER = Path("tailwright-tls")
SOON_DAYS = 30.0


class Reason(enum.StrEnum):
    """Why a certificate no longer counts (RFC 5280, 5.3.1)."""

    UNSPECIFIED = "unspecified"
    KEY_COMPROMISE = "key-compromise"
    SUPERSEDED = "superseded"
    CESSATION_OF_OPERATION = "cessation-of-operation"
    PRIVILEGE_WITHDRAWN = "privilege-withdrawn"


@app.command()
def init(dir: Dir = FOLDER, as_json: Json = False) -> None:
    """Make the CA: ca.pem, which everybody trusts, and ca.key."""
    with _authority(dir) as authority:
        authority.init(utc_now())
        _tell_made(authority, "ca", as_json)


@app.command()
def server(
    name: Annotated[str, typer.Argument(help="The files' name.")],
    host: Annotated[list[str], typer.Option(help="Host name or address that clients reach it by; repeatable.")],
    dir: Dir = FOLDER,
    as_json: Json = False,
) -> None:
    """Issue a server's certificate: NAME.pem and NAME.key."""
    with _authority(dir) as authority:
        authority.issue_server(name, host, utc_now())
        _tell_made(authority, name, as_json)


@app.command()
def node(
    name: Annotated[str, typer.Argument(help="The node's name, as in `tailwright agent --node`.")],
    dir: Dir = FOLDER,
    as_json: Json = False,
) -> None:
    """Issue the certificate by which an agent speaks for its node: NAME.pem and NAME.key."""
    with _authority(dir) as authority:
        authority.issue_node(name, utc_now())
        _tell_made(authority, name, as_json)


@app.command()
def renew(
    within_days: Annotated[float, typer.Option(help="What has less than this left is renewed.", min=0)] = SOON_DAYS,
    dir: Dir = FOLDER,
    as_json: Json = False,
) -> None:
    """Issue anew, with new keys, what ends soon. Whoever uses the files takes them up without a restart."""
    with _authority(dir) as authority:
        names = authority.renew(utc_now(), within_days=within_days)
        is_list_renewed = authority.renew_list(utc_now(), within_days=within_days)
        if as_json:
            renewed = [_certificate(authority, name) for name in names]
            print_json({"renewed": renewed, "list": _list(authority) if is_list_renewed else None})
            return
        for name in names:
            _tell(authority, name)
        if is_list_renewed:
            _tell_list(authority)
        if not names and not is_list_renewed:
            typer.echo(f"nothing in {dir} ends within {within_days:g} days")


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(help="The certificate's name, as `tailwright tls node` was given it.")],
    reason: Annotated[Reason, typer.Option(help="Why; it stands in the list.")] = Reason.UNSPECIFIED,
    dir: Dir = FOLDER,
    as_json: Json = False,
) -> None:
    """Put a node's certificates, old and new, into crl.pem, the list of what no longer counts (--tls-client-crl)."""
    with _authority(dir) as authority:
        from cryptography.x509 import ReasonFlags

        serials = authority.revoke(name, utc_now(), ReasonFlags[reason.name.lower()])
        if as_json:
            told = {"name": name, "reason": reason.value, "serials": [f"{serial:x}" for serial in serials]}
            print_json({**told, "list": _list(authority)})
            return
        for serial in serials:
            typer.echo(f"{name}: serial {serial:x} is revoked ({reason.value})")
        if not serials:
            typer.echo(f"{name}: nothing is left to revoke")
        _tell_list(authority)


@contextmanager
def _authority(folder: Path) -> Iterator["Authority"]:
    """The folder's. Leaves with status 2 and one line where something is wrong."""
    extras.need("tls", "server")
    from controlplane.serving.authority import Authority

    try:
        yield Authority(folder)
    except TailwrightError as error:
        fail(error.message)
    except OSError as error:
        fail(f"dir: {folder} cannot be used: {error}")


def _tell_made(authority: "Authority", name: str, as_json: bool) -> None:
    if as_json:
        print_json(_certificate(authority, name))
    else:
        _tell(authority, name)


def _certificate(authority: "Authority", name: str) -> dict[str, Any]:
    file = authority.folder / name
    ends_at = authority.ends_at(name).isoformat()
    return {"name": name, "certificate": f"{file}.pem", "key": f"{file}.key", "ends_at": ends_at}


def _list(authority: "Authority") -> dict[str, Any]:
    """Of what is revoked."""
    return {"file": str(authority.folder / "crl.pem"), "ends_at": authority.list_ends_at().isoformat()}


def _tell(authority: "Authority", name: str) -> None:
    typer.echo(f"{authority.folder / name}.pem and .key, until {authority.ends_at(name):%Y-%m-%d}")


def _tell_list(authority: "Authority") -> None:
    typer.echo(f"{authority.folder / 'crl.pem'}, until {authority.list_ends_at():%Y-%m-%d}")
