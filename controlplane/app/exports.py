"""The exporters that the settings ask for; none by default."""

from controlplane.app.settings import ServiceSettings
from controlplane.contract.clock import Clock
from controlplane.db.database import Database
from controlplane.telemetry.forwarding.exporter import Exporter, Sender
from controlplane.telemetry.forwarding.meters import ExportMeters
from controlplane.telemetry.forwarding.otlp_request import Scope
from controlplane.telemetry.forwarding.otlp_sender import OtlpSender
from controlplane.telemetry.forwarding.remote_write import RemoteWriteSender
from controlplane.telemetry.reader import TelemetryReader
from controlplane.telemetry.values import instance
from controlplane.terminal.setting_values import pairs_in_file

BOTH = "both"


def exporters_of(
    settings: ServiceSettings, database: Database, reader: TelemetryReader, clock: Clock, meters: ExportMeters
) -> list[Exporter]:
    """Raises `BadRequest` where a URL is the service's own, BadSettings for a file of headers that is none."""
    senders: list[Sender] = []
    for setting in ("export_otlp_url", "export_remote_write_url"):
        url = getattr(settings, setting)
        if url is not None:
            instance.refuse_own_url(setting, url, settings.host, settings.port)
    if settings.export_otlp_url is not None:
        scope = settings.export_otlp_scope
        senders.append(
            OtlpSender(
                reader,
                settings.export_otlp_url,
                clock,
                headers={
                    **settings.export_otlp_headers,
                    **pairs_in_file(settings.export_otlp_headers_file, "export_otlp_headers_file"),
                    instance.HEADER: instance.name_of(database),
                },
                scopes=list(Scope) if scope == BOTH else [Scope(scope)],
                interval_s=settings.export_otlp_interval_s,
            )
        )
    if settings.export_remote_write_url is not None:
        senders.append(
            RemoteWriteSender(
                reader,
                settings.export_remote_write_url,
                clock,
                headers={
                    **settings.export_remote_write_headers,
                    **pairs_in_file(settings.export_remote_write_headers_file, "export_remote_write_headers_file"),
                },
                labels=settings.export_remote_write_labels,
                interval_s=settings.export_remote_write_interval_s,
            )
        )
    return [
        Exporter(
            sender,
            database,
            meters,
            delay_s=settings.export_delay_s,
            longest_lag_s=settings.export_longest_lag_s,
        )
        for sender in senders
    ]
