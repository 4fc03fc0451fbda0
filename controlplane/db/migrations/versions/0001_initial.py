"""All tables; frames partitioned on PostgreSQL.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

RESOLUTIONS_S = (5, 10, 60, 300, 3600)

_APPEND_ONLY = {
    "sqlite": (
        "CREATE TRIGGER ledger_no_update BEFORE UPDATE ON ledger "
        "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
        "CREATE TRIGGER ledger_no_delete BEFORE DELETE ON ledger "
        "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
        # INSERT OR REPLACE removes a row without asking the trigger above.
        "CREATE TRIGGER ledger_no_replace BEFORE INSERT ON ledger WHEN NEW.id <= (SELECT max(id) FROM ledger) "
        "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION ledger_refuses() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$",
        "CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger "
        "FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuses()",
    ),
}
"""The ledger's rows are only ever added, whoever asks."""


def upgrade() -> None:
    op.create_table(
        "alert",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("rule_id", sa.Integer(), nullable=False),
        sa.Column("rule", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("link", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("severity", sa.String(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("summary", sa.String(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("breach_since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("clear_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("hold_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("fired_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("resolved_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("threshold", sa.Float(), nullable=True),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.Column("diagnosis", sa.JSON(), nullable=True),
        sa.Column("silenced", sa.Boolean(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=True),
        sa.Column("updates", sa.JSON(), server_default="[]", nullable=False),
        sa.Column("remedies", sa.JSON(), server_default="[]", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_alert_fingerprint"), "alert", ["fingerprint"], unique=False)
    op.create_index(op.f("ix_alert_pool"), "alert", ["pool"], unique=False)
    op.create_index(op.f("ix_alert_rule_id"), "alert", ["rule_id"], unique=False)
    op.create_index(op.f("ix_alert_state"), "alert", ["state"], unique=False)
    op.create_table(
        "alert_rule",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=True),
        sa.Column("condition", sa.JSON(), nullable=False),
        sa.Column("severity", sa.String(), nullable=False),
        sa.Column("remedy", sa.JSON(), nullable=True),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("origin", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "delivery",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("alert_id", sa.Integer(), nullable=False),
        sa.Column("destination_id", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("idempotency_key", sa.String(), nullable=False),
        sa.Column("body", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("last_error", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("waits_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("leased_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("leased_by", sa.Integer(), nullable=True),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_delivery_alert_id"), "delivery", ["alert_id"], unique=False)
    op.create_index("ix_delivery_due", "delivery", ["destination_id", "state", "attempts", "id"], unique=False)
    op.create_index("ix_delivery_order", "delivery", ["destination_id", "state", "fingerprint", "id"], unique=False)
    op.create_index(op.f("ix_delivery_state"), "delivery", ["state"], unique=False)
    op.create_table(
        "destination",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("shown", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=True),
        sa.Column("secret", sa.String(), nullable=True),
        sa.Column("callback_secret", sa.String(), nullable=True),
        sa.Column("login", sa.String(), nullable=True),
        sa.Column("sender", sa.String(), nullable=True),
        sa.Column("recipients", sa.JSON(), server_default="[]", nullable=False),
        sa.Column("per_minute", sa.Integer(), nullable=True),
        sa.Column("title_template", sa.String(), nullable=True),
        sa.Column("text_template", sa.String(), nullable=True),
        sa.Column("only", sa.JSON(), nullable=True),
        sa.Column("template_failures", sa.Integer(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("origin", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("succeeded_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("last_error", sa.String(), nullable=True),
        sa.Column("rests_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("tokens", sa.Float(), nullable=True),
        sa.Column("tokens_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "callback_taken",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("taken_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_index(op.f("ix_callback_taken_taken_at"), "callback_taken", ["taken_at"], unique=False)
    op.create_table(
        "event",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("link", sa.String(), nullable=True),
        sa.Column("posted_by", sa.String(), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_event_time"), "event", ["time"], unique=False)
    op.create_table(
        "inbound_alert",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("annotations", sa.JSON(), nullable=False),
        sa.Column("link", sa.String(), nullable=False),
        sa.Column("starts_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ends_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("taken_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sent_by", sa.String(), nullable=False),
        sa.Column("alert_id", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("source", "fingerprint", "starts_at"),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_inbound_alert_status"), "inbound_alert", ["status"], unique=False)
    op.create_index(op.f("ix_inbound_alert_taken_at"), "inbound_alert", ["taken_at"], unique=False)
    op.create_table(
        "account_notices",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("entry", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "detector_state",
        sa.Column("rule_id", sa.Integer(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("position", sa.DateTime(timezone=True), nullable=False),
        sa.Column("state", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("rule_id", "pool"),
    )
    keys = op.create_table(
        "encryption_key",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key_id", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.bulk_insert(keys, [{"id": 1, "key_id": None}])
    op.create_table(
        "fleet_secret",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "ledger",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_ledger_actor"), "ledger", ["actor"], unique=False)
    op.create_index(op.f("ix_ledger_kind"), "ledger", ["kind"], unique=False)
    op.create_index(op.f("ix_ledger_subject"), "ledger", ["subject"], unique=False)
    op.create_index(op.f("ix_ledger_time"), "ledger", ["time"], unique=False)
    heads = op.create_table(
        "ledger_head",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("entry", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.bulk_insert(heads, [{"id": 1, "entry": 0, "hash": "0" * 64}])
    anchors = op.create_table(
        "ledger_anchor",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("entry", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("signature", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.bulk_insert(anchors, [{"id": 1, "entry": 0, "hash": "0" * 64, "signature": ""}])
    for step in _APPEND_ONLY[op.get_bind().dialect.name]:
        op.execute(step)
    op.create_table(
        "incident",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("severity", sa.String(), nullable=False),
        sa.Column("title", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("route", sa.String(), nullable=True),
        sa.Column("route_id", sa.Integer(), nullable=True),
        sa.Column("group_key", sa.JSON(), nullable=False),
        sa.Column("onset_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("acknowledged_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("acknowledged_by", sa.String(), nullable=True),
        sa.Column("quiet_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("resolved_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("resolved_by", sa.String(), nullable=True),
        sa.Column("merged_into", sa.Integer(), nullable=True),
        sa.Column("reopened", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_incident_merged_into"), "incident", ["merged_into"], unique=False)
    op.create_index(op.f("ix_incident_pool"), "incident", ["pool"], unique=False)
    op.create_index(op.f("ix_incident_state"), "incident", ["state"], unique=False)
    op.create_table(
        "incident_alert",
        sa.Column("alert_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("incident_id", sa.Integer(), nullable=False),
        sa.Column("joined_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("why", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("alert_id"),
    )
    op.create_index(op.f("ix_incident_alert_incident_id"), "incident_alert", ["incident_id"], unique=False)
    op.create_table(
        "incident_note",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("incident_id", sa.Integer(), nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("author", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_incident_note_incident_id"), "incident_note", ["incident_id"], unique=False)
    op.create_table(
        "incident_route",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("matchers", sa.JSON(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("group_by", sa.JSON(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("origin", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "inhibit_rule",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("source", sa.JSON(), nullable=False),
        sa.Column("target", sa.JSON(), nullable=False),
        sa.Column("equal", sa.JSON(), nullable=False),
        sa.Column("origin", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "probe",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "revision",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("knobs", sa.JSON(), nullable=False),
        sa.Column("note", sa.String(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index(op.f("ix_revision_hash"), "revision", ["hash"], unique=True)
    op.create_table(
        "rollout",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("verdict", sa.String(), nullable=True),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("active_pool", sa.String(), nullable=True),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("previous_revision", sa.Integer(), nullable=True),
        sa.Column("canary_nodes", sa.JSON(), nullable=False),
        sa.Column("control_nodes", sa.JSON(), nullable=False),
        sa.Column("told_nodes", sa.JSON(), nullable=False),
        sa.Column("control_labels", sa.JSON(), nullable=False),
        sa.Column("node_groups", sa.JSON(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("proposer", sa.JSON(), nullable=True),
        sa.Column("needs_approval", sa.Boolean(), nullable=False),
        sa.Column("approved_by", sa.String(), nullable=True),
        sa.Column("approved_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("step_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("judging_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("judged_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("judge", sa.JSON(), nullable=True),
        sa.Column("lost_since", sa.JSON(), nullable=False),
        sa.Column("away_s", sa.Float(), nullable=False),
        sa.Column("watched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("resumes", sa.String(), nullable=True),
        sa.Column("follows", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("active_pool"),
    )
    op.create_index(op.f("ix_rollout_phase"), "rollout", ["phase"], unique=False)
    op.create_index(op.f("ix_rollout_pool"), "rollout", ["pool"], unique=False)
    op.create_table(
        "rollout_freeze",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("pool", sa.String(), nullable=True),
        sa.Column("starts_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ends_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_rollout_freeze_ends_at"), "rollout_freeze", ["ends_at"], unique=False)
    op.create_table(
        "rollout_hook",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("shown", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=True),
        sa.Column("secret", sa.String(), nullable=True),
        sa.Column("timeout_s", sa.Float(), nullable=False),
        sa.Column("retries", sa.Integer(), nullable=False),
        sa.Column("on_silence", sa.String(), nullable=False),
        sa.Column("origin", sa.String(), nullable=True),
        sa.Column("updated_by", sa.String(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("pool", "name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "rollout_hook_call",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("rollout_id", sa.Integer(), nullable=False),
        sa.Column("hook_id", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("body", sa.String(), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("leased_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("leased_by", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("rollout_id", "hook_id", "step"),
    )
    op.create_index(
        op.f("ix_rollout_hook_call_next_attempt_at"), "rollout_hook_call", ["next_attempt_at"], unique=False
    )
    op.create_index(op.f("ix_rollout_hook_call_rollout_id"), "rollout_hook_call", ["rollout_id"], unique=False)
    op.create_table(
        "rollout_pin",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("place", sa.String(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("pool", "place"),
    )
    op.create_table(
        "rollout_policy",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("policy", sa.JSON(), nullable=False),
        sa.Column("updated_by", sa.String(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("pool"),
    )
    op.create_table(
        "keyed_answer",
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("answer", sa.JSON(), nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("holder", "key"),
    )
    op.create_table(
        "silence",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("matchers", sa.JSON(), nullable=False),
        sa.Column("patterns", sa.JSON(), nullable=False),
        sa.Column("comment", sa.String(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("starts_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ends_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_early_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("origin", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "study",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("running_pool", sa.String(), nullable=True),
        sa.Column("online", sa.Boolean(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("worker", sa.String(), nullable=True),
        sa.Column("heard_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("active_s", sa.Float(), nullable=False),
        sa.Column("trial_node", sa.String(), nullable=True),
        sa.Column("progress", sa.String(), nullable=False),
        sa.Column("workload_summary", sa.JSON(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.Column("error", sa.String(), nullable=False),
        sa.Column("alert_id", sa.Integer(), nullable=True),
        sa.Column("rollout_id", sa.Integer(), nullable=True),
        sa.Column("default_revision", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("running_pool"),
    )
    op.create_index(op.f("ix_study_alert_id"), "study", ["alert_id"], unique=False)
    op.create_index(op.f("ix_study_pool"), "study", ["pool"], unique=False)
    op.create_index(op.f("ix_study_state"), "study", ["state"], unique=False)
    op.create_table(
        "telemetry_cumulative",
        sa.Column("key", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.Column("time_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "telemetry_exemplar",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("metric", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("prompt_bucket", sa.String(), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("time_ns", sa.BigInteger(), nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("trace_id", sa.String(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=False),
        sa.Column("arrival_ns", sa.BigInteger(), nullable=True),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("finish_reason", sa.String(), nullable=False),
        sa.Column("parts", sa.LargeBinary(), nullable=False),
        sa.Column("batch", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_telemetry_exemplar_identity",
        "telemetry_exemplar",
        ["minute", "pool", "metric", "prompt_bucket", "node", "request_id", "trace_id"],
        unique=True,
    )
    op.create_index("ix_telemetry_exemplar_request", "telemetry_exemplar", ["request_id"], unique=False)
    op.create_index("ix_telemetry_exemplar_time", "telemetry_exemplar", ["metric", "time_ns"], unique=False)
    op.create_table(
        "telemetry_export",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("position", sa.DateTime(timezone=True), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "telemetry_fold",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("levels", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "telemetry_frame",
        sa.Column("resolution", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("metric", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("block", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("window", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("frame", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("resolution", "metric", "block", "window"),
        postgresql_partition_by="LIST (resolution)",
    )
    op.create_index("ix_telemetry_frame_window", "telemetry_frame", ["resolution", "window"], unique=False)
    op.create_table(
        "telemetry_instance",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "telemetry_labels",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.BigInteger(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("fleet_id", sa.Integer(), nullable=True),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("used_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    op.create_index(op.f("ix_telemetry_labels_used_ns"), "telemetry_labels", ["used_ns"], unique=False)
    op.create_table(
        "telemetry_metric",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name", "kind"),
    )
    op.create_table(
        "telemetry_node",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "telemetry_pending",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("first_window", sa.BigInteger(), nullable=False),
        sa.Column("last_window", sa.BigInteger(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("points", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "telemetry_request",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=False),
        sa.Column("arrival_ns", sa.BigInteger(), nullable=False),
        sa.Column("e2e_s", sa.Float(), nullable=False),
        sa.Column("ttft_s", sa.Float(), nullable=True),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("finish_reason", sa.String(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("region", sa.String(), nullable=False),
        sa.Column("block_size", sa.Integer(), nullable=False),
        sa.Column("parts", sa.LargeBinary(), nullable=False),
        sa.Column("hashes", sa.LargeBinary(), nullable=False),
        sa.Column("trace_id", sa.String(), nullable=False),
        sa.Column("batch", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_telemetry_request_arrival_ns"), "telemetry_request", ["arrival_ns"], unique=False)
    op.create_index(
        "ix_telemetry_request_identity", "telemetry_request", ["node", "request_id", "arrival_ns"], unique=True
    )
    op.create_index("ix_telemetry_request_pool_arrival", "telemetry_request", ["pool", "arrival_ns"], unique=False)
    op.create_table(
        "telemetry_seen",
        sa.Column("end_ns", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("resource", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("start_ns", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hashes", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("end_ns", "resource", "start_ns"),
    )
    op.create_table(
        "telemetry_stream",
        sa.Column("stream", sa.LargeBinary(), nullable=False),
        sa.Column("high", sa.BigInteger(), nullable=False),
        sa.Column("digests", sa.LargeBinary(), nullable=False),
        sa.Column("heard_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("stream"),
    )
    op.create_table(
        "token",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("node", sa.String(), nullable=True),
        sa.Column("pool", sa.String(), nullable=True),
        sa.Column("replaces", sa.Integer(), nullable=True),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("made_by", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["replaces"],
            ["token.id"],
        ),
        sa.ForeignKeyConstraint(
            ["made_by"],
            ["token.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_token_digest"), "token", ["digest"], unique=True)
    op.create_index(op.f("ix_token_node"), "token", ["node"], unique=False)
    op.create_table(
        "enrolment_rules",
        sa.Column("token_id", sa.Integer(), nullable=False),
        sa.Column("uses", sa.Integer(), nullable=True),
        sa.Column("pools", sa.JSON(), nullable=True),
        sa.Column("roles", sa.JSON(), nullable=True),
        sa.Column("nodes", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["token_id"],
            ["token.id"],
        ),
        sa.PrimaryKeyConstraint("token_id"),
    )
    op.create_table(
        "sign_in_code",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("token_id", sa.Integer(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["token_id"],
            ["token.id"],
        ),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_table(
        "person",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=True),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("first_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("signed_in_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_person_digest"), "person", ["digest"], unique=True)
    op.create_table(
        "sign_in_attempt",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_table(
        "browser_session",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("token_id", sa.Integer(), nullable=True),
        sa.Column("person_id", sa.Integer(), nullable=True),
        sa.Column("address", sa.String(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["token_id"],
            ["token.id"],
        ),
        sa.ForeignKeyConstraint(
            ["person_id"],
            ["person.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_browser_session_digest"), "browser_session", ["digest"], unique=True)
    op.create_index(op.f("ix_browser_session_person_id"), "browser_session", ["person_id"], unique=False)
    op.create_table(
        "pool",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["revision"],
            ["revision.number"],
        ),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "workload",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("format", sa.String(), nullable=False),
        sa.Column("traffic", sa.String(), nullable=False),
        sa.Column("figures", sa.JSON(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "prompt_set",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("prompts", sa.String(), nullable=True),
        sa.Column("packed_bytes", sa.Integer(), nullable=False),
        sa.Column("figures", sa.JSON(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "study_plan",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id"],
            ["study.id"],
        ),
        sa.PrimaryKeyConstraint("study_id"),
    )
    op.create_table(
        "trial_lease",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("worker", sa.String(), nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("held_node", sa.String(), nullable=True),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("taken_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("heard_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["study_id"],
            ["study.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("held_node"),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_trial_lease_study_id"), "trial_lease", ["study_id"], unique=False)
    op.create_table(
        "trial",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("knobs", sa.JSON(), nullable=False),
        sa.Column("run_order", sa.JSON(), nullable=False),
        sa.Column("lease_id", sa.Integer(), nullable=True),
        sa.Column("step", sa.JSON(), nullable=True),
        sa.Column("takings", sa.Integer(), nullable=False),
        sa.Column("report", sa.JSON(), nullable=True),
        sa.Column("reported_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["lease_id"],
            ["trial_lease.id"],
        ),
        sa.ForeignKeyConstraint(
            ["study_id"],
            ["study.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("study_id", "number"),
    )
    op.create_index(op.f("ix_trial_study_id"), "trial", ["study_id"], unique=False)
    op.create_table(
        "node",
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("backend", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=True),
        sa.Column("engine_url", sa.String(), nullable=True),
        sa.Column("agent_version", sa.String(), nullable=True),
        sa.Column("engine_process", sa.String(), nullable=False),
        sa.Column("engine_version", sa.String(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("override_revision", sa.Integer(), nullable=True),
        sa.Column("cache_reset", sa.Integer(), nullable=False),
        sa.Column("instance_uid", sa.String(), nullable=True),
        sa.Column("sequence_num", sa.BigInteger(), nullable=False),
        sa.Column("replaced_uid", sa.String(), nullable=True),
        sa.Column("gone", sa.Boolean(), nullable=False),
        sa.Column("connected", sa.Boolean(), nullable=False),
        sa.Column("connection", sa.String(), nullable=True),
        sa.Column("last_seen", sa.DateTime(timezone=True), nullable=True),
        sa.Column("healthy", sa.Boolean(), nullable=False),
        sa.Column("health_detail", sa.String(), nullable=False),
        sa.Column("unaccounted_share", sa.Float(), nullable=True),
        sa.Column("effective", sa.JSON(), nullable=True),
        sa.Column("config_hash", sa.String(), nullable=False),
        sa.Column("config_status", sa.String(), nullable=False),
        sa.Column("config_error", sa.String(), nullable=False),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("claimed_by", sa.String(), nullable=True),
        sa.Column("released_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("drift_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["override_revision"],
            ["revision.number"],
        ),
        sa.ForeignKeyConstraint(
            ["pool"],
            ["pool.name"],
        ),
        sa.PrimaryKeyConstraint("node"),
    )
    op.create_index(op.f("ix_node_instance_uid"), "node", ["instance_uid"], unique=False)
    op.create_index(op.f("ix_node_pool"), "node", ["pool"], unique=False)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE telemetry_pending ALTER COLUMN points SET STORAGE EXTERNAL")
        op.execute("ALTER TABLE telemetry_frame ALTER COLUMN frame SET STORAGE EXTERNAL")
        for resolution in RESOLUTIONS_S:
            level = f"telemetry_frame_partition_{resolution}"
            op.execute(
                f"CREATE TABLE {level} PARTITION OF telemetry_frame FOR VALUES IN ({resolution}) "
                'PARTITION BY RANGE ("window")'
            )
            op.execute(f"CREATE TABLE {level}_default PARTITION OF {level} DEFAULT")


def downgrade() -> None:
    op.drop_index(op.f("ix_node_pool"), table_name="node")
    op.drop_index(op.f("ix_node_instance_uid"), table_name="node")
    op.drop_table("node")
    op.drop_index(op.f("ix_trial_study_id"), table_name="trial")
    op.drop_table("trial")
    op.drop_index(op.f("ix_trial_lease_study_id"), table_name="trial_lease")
    op.drop_table("trial_lease")
    op.drop_table("study_plan")
    op.drop_table("prompt_set")
    op.drop_table("workload")
    op.drop_table("pool")
    op.drop_index(op.f("ix_browser_session_person_id"), table_name="browser_session")
    op.drop_index(op.f("ix_browser_session_digest"), table_name="browser_session")
    op.drop_table("browser_session")
    op.drop_table("sign_in_attempt")
    op.drop_index(op.f("ix_person_digest"), table_name="person")
    op.drop_table("person")
    op.drop_table("sign_in_code")
    op.drop_table("enrolment_rules")
    op.drop_index(op.f("ix_token_node"), table_name="token")
    op.drop_index(op.f("ix_token_digest"), table_name="token")
    op.drop_table("token")
    op.drop_table("telemetry_stream")
    op.drop_table("telemetry_seen")
    op.drop_index("ix_telemetry_request_pool_arrival", table_name="telemetry_request")
    op.drop_index("ix_telemetry_request_identity", table_name="telemetry_request")
    op.drop_index(op.f("ix_telemetry_request_arrival_ns"), table_name="telemetry_request")
    op.drop_table("telemetry_request")
    op.drop_table("telemetry_pending")
    op.drop_table("telemetry_node")
    op.drop_table("telemetry_metric")
    op.drop_index(op.f("ix_telemetry_labels_used_ns"), table_name="telemetry_labels")
    op.drop_table("telemetry_labels")
    op.drop_table("telemetry_instance")
    op.drop_index("ix_telemetry_frame_window", table_name="telemetry_frame")
    op.drop_table("telemetry_frame")
    op.drop_table("telemetry_fold")
    op.drop_table("telemetry_export")
    op.drop_index("ix_telemetry_exemplar_time", table_name="telemetry_exemplar")
    op.drop_index("ix_telemetry_exemplar_request", table_name="telemetry_exemplar")
    op.drop_index("ix_telemetry_exemplar_identity", table_name="telemetry_exemplar")
    op.drop_table("telemetry_exemplar")
    op.drop_table("telemetry_cumulative")
    op.drop_index(op.f("ix_study_state"), table_name="study")
    op.drop_index(op.f("ix_study_pool"), table_name="study")
    op.drop_index(op.f("ix_study_alert_id"), table_name="study")
    op.drop_table("study")
    op.drop_table("silence")
    op.drop_index(op.f("ix_rollout_pool"), table_name="rollout")
    op.drop_index(op.f("ix_rollout_phase"), table_name="rollout")
    op.drop_table("rollout")
    op.drop_table("keyed_answer")
    op.drop_table("rollout_policy")
    op.drop_table("rollout_pin")
    op.drop_index(op.f("ix_rollout_hook_call_rollout_id"), table_name="rollout_hook_call")
    op.drop_index(op.f("ix_rollout_hook_call_next_attempt_at"), table_name="rollout_hook_call")
    op.drop_table("rollout_hook_call")
    op.drop_table("rollout_hook")
    op.drop_index(op.f("ix_rollout_freeze_ends_at"), table_name="rollout_freeze")
    op.drop_table("rollout_freeze")
    op.drop_index(op.f("ix_revision_hash"), table_name="revision")
    op.drop_table("revision")
    op.drop_table("probe")
    op.drop_table("inhibit_rule")
    op.drop_table("incident_route")
    op.drop_index(op.f("ix_incident_note_incident_id"), table_name="incident_note")
    op.drop_table("incident_note")
    op.drop_index(op.f("ix_incident_alert_incident_id"), table_name="incident_alert")
    op.drop_table("incident_alert")
    op.drop_index(op.f("ix_incident_state"), table_name="incident")
    op.drop_index(op.f("ix_incident_pool"), table_name="incident")
    op.drop_index(op.f("ix_incident_merged_into"), table_name="incident")
    op.drop_table("incident")
    op.drop_index(op.f("ix_ledger_time"), table_name="ledger")
    op.drop_index(op.f("ix_ledger_subject"), table_name="ledger")
    op.drop_index(op.f("ix_ledger_kind"), table_name="ledger")
    op.drop_index(op.f("ix_ledger_actor"), table_name="ledger")
    op.drop_table("ledger")
    op.drop_table("ledger_head")
    op.drop_table("ledger_anchor")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION ledger_refuses()")
    op.drop_table("fleet_secret")
    op.drop_table("encryption_key")
    op.drop_index(op.f("ix_inbound_alert_taken_at"), table_name="inbound_alert")
    op.drop_index(op.f("ix_inbound_alert_status"), table_name="inbound_alert")
    op.drop_table("inbound_alert")
    op.drop_index(op.f("ix_event_time"), table_name="event")
    op.drop_table("event")
    op.drop_index(op.f("ix_callback_taken_taken_at"), table_name="callback_taken")
    op.drop_table("callback_taken")
    op.drop_table("detector_state")
    op.drop_table("account_notices")
    op.drop_table("destination")
    op.drop_index(op.f("ix_delivery_state"), table_name="delivery")
    op.drop_index("ix_delivery_order", table_name="delivery")
    op.drop_index("ix_delivery_due", table_name="delivery")
    op.drop_index(op.f("ix_delivery_alert_id"), table_name="delivery")
    op.drop_table("delivery")
    op.drop_table("alert_rule")
    op.drop_index(op.f("ix_alert_state"), table_name="alert")
    op.drop_index(op.f("ix_alert_rule_id"), table_name="alert")
    op.drop_index(op.f("ix_alert_pool"), table_name="alert")
    op.drop_index(op.f("ix_alert_fingerprint"), table_name="alert")
    op.drop_table("alert")
