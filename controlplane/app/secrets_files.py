"""The tokens that the first start leaves in the data directory, readable by its owner only (mode 600).

Guarantees: only hashes are in the database; a later start keeps what is there, and never brings a revoked token back; a
start that was killed half way is completed by the next. The personal ones have an end; then the file gets another where
nobody has made a token of that scope: who may read the folder is never locked out, and nobody else has a way in.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sqlmodel import Session

from controlplane import ledger
from controlplane.auth import store
from controlplane.auth.token import new_token
from controlplane.contract.bodies.access import TOKEN_PATTERN, Scope
from controlplane.contract.errors import BadSettings
from controlplane.serving import owned_files

FIELD = "data_dir"


@dataclass(frozen=True)
class SecretFile:
    """One token file. A `personal` one may be moved elsewhere by its owner; the others are for local processes."""

    filename: str
    name: str
    scope: Scope
    personal: bool = False


ADMIN = SecretFile("admin-token", "admin", Scope.ADMIN, personal=True)
ENROLMENT = SecretFile("enrolment-token", "enrolment", Scope.ENROL, personal=True)
TUNER = SecretFile("tuner-token", "tuner", Scope.OPERATE)
DASHBOARD = SecretFile("dashboard-token", "dashboard", Scope.READ)
FILES = (ADMIN, ENROLMENT, TUNER, DASHBOARD)


RENEWAL_S = 3600.0
"""How often it is looked whether a personal one has ended."""


def ensure(session: Session, data_dir: Path, now: datetime, lasts: timedelta | None = None) -> None:
    """Write the files that are missing or whose token has ended, and register their tokens, in the caller's
    transaction. lasts: how long a personal one counts; None: until it is revoked.

    Raises BadSettings for a file that somebody else may have put there, or that holds no token of this form.
    """
    owned_files.make_folder(data_dir, FIELD)
    for file in FILES:
        _ensure_one(session, data_dir / file.filename, file, now, lasts if file.personal else None)


def renew(session: Session, data_dir: Path, now: datetime, lasts: timedelta | None) -> None:
    """While the service runs: another for each personal one that has ended by itself. One that was revoked, or whose
    file is gone, is its owner's deed. Raises as `ensure`."""
    for file in (ADMIN, ENROLMENT):
        path = data_dir / file.filename
        token = _read(path)
        if token is not None and (store.find(session, token) is not None or not store.was_issued(session, token)):
            _ensure_one(session, path, file, now, lasts)


def read(data_dir: Path, file: SecretFile) -> str:
    """The token in a file. Raises BadSettings."""
    path = data_dir / file.filename
    token = _read(path)
    if token is None:
        raise BadSettings(f"{FIELD}: {path} is not there", field=FIELD)
    return token


def _read(path: Path) -> str | None:
    text = owned_files.read(path, FIELD)
    token = None if text is None else text.strip()
    if token and not re.fullmatch(TOKEN_PATTERN, token):
        raise BadSettings(
            f"{FIELD}: {path} holds no token of this service's form, and is not taken for one: see who wrote it, and "
            "remove it",
            field=FIELD,
        )
    return token or None


def _ensure_one(session: Session, path: Path, file: SecretFile, now: datetime, lasts: timedelta | None) -> None:
    token = _read(path)
    ends = None if lasts is None else now + lasts
    view = store.find(session, token) if token else None
    if view is not None and (view.expires_at is None or view.expires_at > now):
        return
    if token and not store.was_issued(session, token):
        _register(session, file, token, now, ends)
        return
    if file.personal and store.any_of_scope(session, file.scope, now):
        return  # Its owner keeps it elsewhere, or has revoked it for another.
    token = new_token()
    # The file first: a start that is killed before the commit leaves a file that the next start registers.
    owned_files.write(path, token + "\n")
    _register(session, file, token, now, ends)


def _register(session: Session, file: SecretFile, token: str, now: datetime, ends: datetime | None) -> None:
    view, _ = store.issue(session, name=file.name, scope=file.scope, now=now, token=token, expires_at=ends)
    message = f"token {file.name!r} with scope {file.scope.value}, kept in the file {file.filename}"
    ledger.append(session, now, ledger.SERVICE, "token.created", f"token/{view.id}", message)


def metrics_token(file: Path | None) -> str | None:
    """What `metrics_token_file` holds, None where it is not set. Raises BadSettings."""
    field = "metrics_token_file"
    if file is None:
        return None
    token = (owned_files.read(file, field, mounted=True) or "").strip()
    if not re.fullmatch(r"[!-~]{16,512}", token):
        raise BadSettings(f"{field}: {file} wants one token of 16 characters or more, without spaces", field=field)
    return token
