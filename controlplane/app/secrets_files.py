"""The tokens that the first start leaves in the data directory, readable by its owner only (mode 600).

Guarantees: only hashes are in the database; a later start keeps what is there, and never brings a revoked token back; a
start that was killed half way is completed by the next.
"""

import re
from dataclasses import dataclass
from datetime import datetime
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


def ensure(session: Session, data_dir: Path, now: datetime) -> None:
    """Write the files that are missing, and register their tokens, in the caller's transaction.

    Raises BadSettings for a file that somebody else may have put there, or that holds no token of this form.
    """
    owned_files.make_folder(data_dir, FIELD)
    for file in FILES:
        _ensure_one(session, data_dir / file.filename, file, now)


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


def _ensure_one(session: Session, path: Path, file: SecretFile, now: datetime) -> None:
    token = _read(path)
    if token and store.find(session, token) is not None:
        return
    if token and not store.was_issued(session, token):
        _register(session, file, token, now)
        return
    if file.personal and store.any_of_scope(session, file.scope, now):
        return  # Its owner keeps it elsewhere, or has revoked it for another.
    token = new_token()
    # The file first: a start that is killed before the commit leaves a file that the next start registers.
    owned_files.write(path, token + "\n")
    _register(session, file, token, now)


def _register(session: Session, file: SecretFile, token: str, now: datetime) -> None:
    view, _ = store.issue(session, name=file.name, scope=file.scope, now=now, token=token)
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
