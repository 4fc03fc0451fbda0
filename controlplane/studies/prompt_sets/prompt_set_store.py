"""Kept prompts in the database, inside the caller's transaction: their text encrypted, what they are like in clear."""

from datetime import datetime

from sqlmodel import Session

from controlplane import ledger
from controlplane.contract.bodies.workload import KeptPromptSet, PromptSetCreate, PromptSetText
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.packed_prompts import Prompt
from controlplane.db.rows import newest
from controlplane.keys import Keyring, Place
from controlplane.studies import kept_by_name
from controlplane.studies.prompt_sets.prompt_set_checks import prompt_figures
from controlplane.studies.tables import PromptSetRow
from controlplane.studies.view import prompt_set_view

MOST_KEPT = 20
"""Of 900,000 characters each at most, all of which a rotation of keys encrypts anew at once."""


def listing(session: Session, *, before_id: int | None, limit: int) -> list[KeptPromptSet]:
    """Newest first."""
    return [prompt_set_view(row) for row in session.exec(newest(PromptSetRow, before_id, limit))]


def get(session: Session, name: str) -> KeptPromptSet:
    return prompt_set_view(_row(session, name))


def text(session: Session, name: str, keyring: Keyring) -> PromptSetText:
    """Raises `Undecryptable`."""
    row = _row(session, name)
    assert row.id is not None and row.prompts is not None
    return PromptSetText(id=row.id, prompts=keyring.decrypt(_place(row.id), row.prompts))


def add(
    session: Session, wanted: PromptSetCreate, found: list[Prompt], keyring: Keyring, *, actor: str, now: datetime
) -> KeptPromptSet:
    """`found`: what `wanted` packs (`prompt_set_checks.checked_prompts`). Raises `Conflict`."""
    row = PromptSetRow(
        name=wanted.name,
        packed_bytes=len(wanted.prompts),
        figures=prompt_figures(found).model_dump(mode="json"),
        created_by=actor,
        created_at=now,
    )
    taken = f"prompts {wanted.name!r} are kept already; take another name, or remove them"
    kept_by_name.insert(session, row, most=MOST_KEPT, many="prompt sets", taken=taken)
    assert row.id is not None
    row.prompts = keyring.encrypt(session, _place(row.id), wanted.prompts)
    session.flush()
    said = f"prompt set {row.name} of {len(found):,} prompts added"
    ledger.append(session, now, actor, "prompt_set.added", f"prompt-set/{row.id}", said, name=row.name, **row.figures)
    return prompt_set_view(row)


def remove(session: Session, name: str, *, actor: str, now: datetime) -> None:
    """A study that has begun with it fails where it goes on with another worker."""
    row = _row(session, name)
    session.delete(row)
    said = f"prompt set {name} removed"
    ledger.append(session, now, actor, "prompt_set.removed", f"prompt-set/{row.id}", said, name=name)


def check_kept(session: Session, name: str) -> None:
    """Whether a study can replay what it names. Raises `BadRequest`."""
    if name and not kept_by_name.is_kept(session, PromptSetRow, name):
        raise BadRequest(
            f"prompts: no prompt set {name[:64]!r} is kept; add it by tailwright prompts add", field="prompts"
        )


def _place(number: int) -> Place:
    return Place("prompt_set", "prompts", number)


def _row(session: Session, name: str) -> PromptSetRow:
    return kept_by_name.named(session, PromptSetRow, name, "prompt set")
