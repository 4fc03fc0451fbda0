"""The tokens that the first start leaves in the data directory, readable by its owner only (mode 600).

Guarantees: only hashes are in the database; a later start keeps what is there, and never brings a revoked token back; a
start that was killed half way is completed by the next.
"""

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlmodel import Session

from controlplane import ledger
from controlplane.auth import store
from controlplane.auth.token import new_token
from controlplane.contract.bodies.access import Scope


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
    """Write the files that are missing, and register their tokens, in the caller's transaction."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    for file in FILES:
        _ensure_one(session, data_dir / file.filename, file, now)


def read(data_dir: Path, file: SecretFile) -> str:
    """The token in a file."""
    return (data_dir / file.filename).read_text().strip()


def _ensure_one(session: Session, path: Path, file: SecretFile, now: datetime) -> None:
    token = path.read_text().strip() if path.exists() else ""
    if token and store.find(session, token) is not None:
        path.chmod(0o600)
        return
    if token and not store.was_issued(session, token):
        _register(session, file, token, now)
        path.chmod(0o600)
        return
    if file.personal and store.any_of_scope(session, file.scope):
        return  # Its owner keeps it elsewhere, or has revoked it for another.
    token = new_token()
    # The file first: a start that is killed before the commit leaves a file that the next start registers.
    _write(path, token)
    _register(session, file, token, now)


def _register(session: Session, file: SecretFile, token: str, now: datetime) -> None:
    view, _ = store.issue(session, name=file.name, scope=file.scope, now=now, token=token)
    message = f"token {file.name!r} with scope {file.scope.value}, kept in the file {file.filename}"
    ledger.append(session, now, ledger.SERVICE, "token.created", f"token/{view.id}", message)


def _write(path: Path, token: str) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(token + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(path)
