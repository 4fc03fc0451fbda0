"""Wire models of the probes /healthz and /readyz. Anybody may ask: no text of an error or of a receiver is in them."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from controlplane.contract.bodies.ledger import LedgerHead


class Health(BaseModel):
    """The process is alive."""

    status: Literal["ok"] = Field(default="ok", description="`ok`")


class TaskHealth(BaseModel):
    """One of the service's own periodic tasks."""

    runs: int = Field(description="how often it has run")
    failures: int = Field(description="how many of these ended with an error")
    failing: bool = Field(description="whether the last run did, or the present one does not end")
    stuck: bool = Field(description="whether the present run does not end")
    last_error: str = Field(description="the kind of the last error, also of one that is over; empty: none")
    last_run: datetime | None = Field(description="when the last run began; null: none has ended yet")
    last_duration_s: float = Field(description="seconds that the last run took")


class ExportHealth(BaseModel):
    """One export to a receiver elsewhere."""

    failing: bool = Field(description="whether the receiver did not take the last message")
    last_error: str = Field(description="the kind of that failure; empty: none")
    delivered_until: datetime | None = Field(
        description="up to when everything has been delivered; null: not yet known"
    )


class ReadyReport(BaseModel):
    """Whether reports are accepted and durable, and what is degraded beside that."""

    status: Literal["ready", "not ready", "stopping"] = Field(description="`ready` alone is a 200, the others are 503")
    database: str = Field(
        description="`writable`; else what is wrong: `the disk is full`, `the database is read-only`, `the disk "
        "answers with errors`, or the kind of the error"
    )
    telemetry: str = Field(
        description="`ready`; `not ready` until it has begun and once it ends; else why the last reports could not be "
        "written, in the words of `database`"
    )
    background: dict[str, TaskHealth] = Field(description="the service's periodic tasks, by name")
    exports: dict[str, ExportHealth] = Field(description="exports to receivers elsewhere, by name")
    degraded: list[str] = Field(
        description="what does not keep it from being ready: `export_NAME`, `frames_unavailable`, `disk_low`, "
        "`background_task_failing`, `tls_file_unusable`, `revocation_list_ended`"
    )
    ledger: LedgerHead | None = Field(description="the ledger's head, signed; null: it cannot be read")


class SettingInForce(BaseModel):
    """A number or a switch that the service was started with. Names of files, addresses and secrets are not told."""

    name: str = Field(description="as a key of the settings file")
    flag: str = Field(description="the option of `tailwright up` that sets it")
    value: float | bool | None = Field(description="in force; null: no limit, or none was given")
    is_default: bool = Field(description="whether it is what it is where nobody sets it")
    description: str = Field(description="what it does, in a sentence")


class ServiceView(BaseModel):
    """`GET /api/v1/service`: what runs here, what it keeps, and by which numbers."""

    version: str = Field(description="Tailwright's release")
    database: Literal["sqlite", "postgresql"] = Field(description="what it keeps everything in")
    database_bytes: int = Field(description="the database's size")
    disk_free_bytes: int | None = Field(description="free where the database's file is; null: on another machine")
    settings: list[SettingInForce] = Field(description="numbers and switches, in the order of docs/settings.md")
