"""Says on standard output that the service is ready.

Guarantee: a link that signs in goes to a terminal alone: logs are read by others, and kept. Nothing that goes wrong
with standard output ends the service.
"""

import logging
import sys

import typer

from controlplane.api.first_steps import first_steps
from controlplane.api.onboarding_endpoints import as_it_is, seen_so_far
from controlplane.app.secrets_files import FIELD, FILES
from controlplane.app.service import Service
from controlplane.auth import browser_sessions, store
from controlplane.command.ready.ready_text import ready_lines
from controlplane.contract.bodies.access import SignInCode
from controlplane.serving import owned_files

log = logging.getLogger(__name__)


def say_ready(service: Service, *, dashboard: bool) -> None:
    """Once. `dashboard`: whether it is served."""
    place = as_it_is(service.place)
    with service.database.read_session() as session:
        steps = first_steps(place, seen_so_far(session, service.telemetry))
    code = first_code(service) if dashboard and sys.stdout.isatty() else None
    files = [service.settings.data_dir.resolve() / file.filename for file in FILES]
    lines = ready_lines(
        place,
        steps,
        [file for file in files if file.is_file()],
        dashboard=dashboard,
        link=None if code is None else code.link(place.service_url),
        link_s=browser_sessions.CODE_S,
    )
    try:
        typer.echo("\n".join(lines))
    except OSError as error:
        log.warning("standard output takes nothing: %s", error)


def first_code(service: Service) -> SignInCode | None:
    """Signs a browser in to read. None where browsers sign in otherwise, or the token for that is gone."""
    file = service.place.read_token_file
    token = None if file is None else owned_files.read(file, FIELD)
    if token is None or not service.token_sign_in:
        return None
    with service.database.session() as session:
        known = store.find(session, token.strip())
        return None if known is None else browser_sessions.make_code(session, known.id, service.clock())
