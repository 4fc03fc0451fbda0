"""`tailwright open`: the dashboard in the desktop's browser, signed in by a link that counts once."""

import os
import sys
import webbrowser
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlsplit

import typer

from controlplane.contract.clock import utc_now
from controlplane.terminal.output.printing import Json, print_json
from controlplane.terminal.service_choice import Choice
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import fail, reaching
from controlplane.terminal.subcommand import subcommand

app = subcommand()


@app.command("open")
@calls_service()
def open_dashboard(
    choice: Choice,
    page: Annotated[str, typer.Argument(help="The page to open, such as /alerts.")] = "/",
    only_print: Annotated[bool, typer.Option("--print", help="Print the link, and open nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Open the dashboard signed in as this token; without a desktop (over ssh), or with --json, print the link."""
    if not is_page(page):
        fail(f"page: wants a path of the dashboard such as /alerts, got {page!r}")
    with reaching(choice) as client:
        code = client.create_sign_in_code()
        # A Unix socket is the service's own way in: browsers have another.
        base = client.onboarding().service_url if choice.server.startswith("unix:") else choice.server
    link = code.link(base, page)
    if as_json:
        print_json({"link": link, "expires_at": code.expires_at.isoformat()})
        return
    if not only_print and has_desktop(os.environ, sys.platform) and webbrowser.open(link):
        typer.echo(f"opened {base.rstrip('/')}{page} in the browser")
        return
    left_s = (code.expires_at - utc_now()).total_seconds()
    typer.echo(f"signs one browser in, once, within {max(0.0, left_s):.0f} s:", err=True)
    typer.echo(link)


def is_page(page: str) -> bool:
    """Whether it is a path of this site, with its query."""
    parts = urlsplit(page) if page.isprintable() and "\\" not in page else None
    return parts is not None and page.startswith("/") and not page.startswith("//") and not parts.netloc


def has_desktop(environment: Mapping[str, str], platform: str) -> bool:
    """Whether a browser that is opened here is in front of the person who asks: not over ssh, nor without a screen."""
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        return False
    return platform in {"darwin", "win32"} or bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))
