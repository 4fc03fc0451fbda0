"""The ledger: one append-only record of who or what did what, and on what evidence."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field


class LedgerEntry(BaseModel):
    """`kind` is "domain.verb": revision.created, rollout.promoted, alert.fired, study.finished, node.enrolled ..."""

    id: int = Field(description="the entry's number, growing with time")
    time: datetime = Field(description="when it happened")
    actor: str = Field(description="a token's name, `tuner`, or `tailwright` for the service itself")
    kind: str = Field(description="what happened, as `domain.verb`")
    subject: str = Field(description="to what, as `rollout/3` or `node/gpu-1`")
    message: str = Field(description="what happened in a sentence")
    evidence: dict[str, Any] = Field(
        default={}, description="the figures it was decided by; `token_id` or `person_id`: who asked for it"
    )


class LedgerHead(BaseModel):
    """The newest entry's number and hash. Kept elsewhere, it shows later whether anything up to it was changed."""

    id: int = Field(ge=0, description="the newest entry's number; 0 before the first")
    hash: str = Field(
        pattern=r"^([a-z0-9-]+\.)?[0-9a-f]{64,128}$",
        description="over that entry and all before it, with the mark of its algorithm: `sha256.` and 64 digits",
    )
    signature: str = Field(
        default="",
        pattern=r"^([a-z0-9-]+\.[0-9a-f]+)?$",
        description="HMAC of both by `ledger-key` in the data directory, marked as the hash is",
    )


class LedgerCheck(BaseModel):
    """Whether the newest entries are as they were written: each hash is of its entry and of the hash before it."""

    head: LedgerHead = Field(description="the newest entry's number and hash, signed")
    first: int = Field(ge=0, description="the oldest entry that was looked at; 0: there is none")
    checked: int = Field(ge=0, description="how many entries were looked at, up to the head")
    wrong: str | None = Field(description="the first that is not as it was written, in words; null: all are")
