"""The house has rooms: no folder is too full, a package's root holds its face only, no file name means two things.

A file is called in the code what it is called on the disk.
"""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOPS = ("controlplane", "agents", "tuner", "web")
MOST = 20
"""Files a folder may have; `__init__.py` is its sign, not one of them."""

ROLES = {"__init__", "__main__", "checks", "command", "endpoints", "machine", "meters", "options", "settings", "store"}
ROLES |= {"tables", "view"}
"""Names that say what a file is to its package: the same in each, by design."""

ELSEWHERE = "agents/vllm_plugin"
"""Installed in vLLM's environment: it cannot import from here, and names what it mirrors as it is named here."""

FACES = {
    "controlplane": set(),
    "controlplane/alerts": {"checks", "endpoints", "evaluator", "store", "tables", "view", "words"},
    "controlplane/alerts/conditions": {
        "absolute",
        "burn_rate",
        "deliberate",
        "engine_versions",
        "finding",
        "kind",
        "node_apart",
        "pool_loads",
        "regression",
        "regression_findings",
        "requests_failed",
        "saturation",
        "symptom",
        "traffic_changed",
        "watched_metrics",
        "watched_stages",
    },
    "controlplane/app": {"allocation", "background", "exports", "frames", "garbage", "health_metrics", "lost_secrets"}
    | {"settings_in_force"}
    | {"new_migration", "own_place", "own_tokens", "pool_limits", "secrets_files", "serve", "service", "settings"}
    | {"sign_in_record", "sign_in_settings", "tables", "ticks"},
    "controlplane/auth": {"browser_address", "browser_sessions", "endpoints", "enrolment_rules", "guard"}
    | {"known_people", "node_certificate", "people_endpoints", "principal", "revocations", "sign_in_endpoints"}
    | {"sign_in_parts", "store", "tables", "token", "token_cache", "token_uses", "token_ends", "turned_away", "view"},
    "controlplane/command": {"bench", "certificates", "export", "ledger_chain", "main", "node_text", "open_dashboard"}
    | {"people_sessions", "rollout", "secret_keys", "status", "store", "tokens", "up"},
    "controlplane/evidence": {
        "two_costs",
        "arm_difference",
        "binomial",
        "dispersion",
        "e_detector",
        "effect",
        "exceedance",
    }
    | {"host_thresholds", "log_factorials", "order_statistics", "poisson", "quantile_score", "replayed_rate", "scores"}
    | {"mix_drift", "shift_scan", "sketch", "two_shares", "wander"},
    "controlplane/contract": {
        "bearer",
        "byte_text",
        "clock",
        "duration_text",
        "engine_address",
        "error_answer",
        "errors",
        "histogram",
        "host_names",
        "knobs",
        "metrics",
        "mistake_text",
    }
    | {"retention_defaults", "retry", "row_id", "share_text", "shown_url", "signature", "step_limits", "trace_url"},
    "controlplane/db": {
        "advisory_lock",
        "binary_transfer",
        "column_types",
        "database",
        "database_size",
        "disk_space",
        "driver_statement",
        "raw_rows",
        "fault",
        "ids",
        "keyed_answers",
        "living_processes",
        "marked_hash",
    }
    | {"migrate", "paging", "partitions", "probe", "request_parts", "rows"}
    | {"sole_replica"},
    "controlplane/fleet": {
        "declared_by_nodes",
        "effective",
        "endpoints",
        "fleet_outline",
        "machine",
        "node_drift",
        "node_views",
        "revisions",
        "running",
        "selected_nodes",
        "store",
        "tables",
        "view",
        "whole_fleet",
        "wishes",
    },
    "controlplane/rollouts": {"approval", "careful_request", "checks", "controller", "decision", "endpoints", "facts"}
    | {"dry_rollout", "interventions", "machine", "node_readings", "outlook", "patience", "stages", "steering", "store"}
    | {"tables", "time_bounds", "view"},
    "controlplane/studies": {"checks", "endpoints", "kept_by_name", "lease_endpoints", "lease_store", "machine"}
    | {"meters", "store", "tables", "trial_lease", "view"},
    "controlplane/telemetry": {"meters", "question", "reader", "store", "tables"},
    "controlplane/terminal": {
        "assignments",
        "checkout",
        "child",
        "clear_database",
        "closed_memory",
        "config_file",
        "doctor_finding",
        "document_file",
        "extras",
        "parent_death",
        "profiles",
        "service_choice",
        "service_command",
        "service_connection",
        "setting_sources",
        "setting_values",
        "settings_options",
        "subcommand",
        "time_options",
        "toml_file",
    },
    "agents": set(),
    "agents/agent": {"agent", "collector", "command", "settings"},
    "agents/backends": {
        "base",
        "change_costs",
        "embedded_backend",
        "engine_control",
        "engine_error",
        "in_flight",
        "warm_up",
    },
    "agents/backends/vllm": {
        "attached",
        "arguments",
        "declared_flags",
        "further_knobs",
        "live_change",
        "node_file",
        "plugin_link",
        "readback",
        "server_api",
    }
    | {"server_variables", "statistics_stream", "weight_format"},
    "agents/engine": {"command", "options"},
    "agents/models": set(),
    "tuner": set(),
    "tuner/twin": {
        "assumed_drafts",
        "dealt_traffic",
        "forecast",
        "known_pool",
        "outside_steps",
        "pool_run",
        "seen_hits",
    }
    | {"simulated_engine", "simulated_request", "steady_decodes", "token_runs"}
    | {"vllm_scheduler", "vllm_twin"},
    "web": {"dashboard"},
    "web/drawing": {"axes", "closing_band", "counted_bars", "curves", "heat_map"}
    | {"line_chart", "made_up", "mark_labels", "node_cells", "one_scale"}
    | {"parallel_trials", "ribbon", "share_bars", "sparkline", "stacks"}
    | {"trends", "trial_history", "units", "verdict_bar", "waterfall"},
}
"""What stands at the root of each package that has rooms."""


def sources() -> list[Path]:
    found = [path for top in TOPS for path in (ROOT / top).rglob("*.py")]
    return [path.relative_to(ROOT) for path in found if not path.is_relative_to(ROOT / ELSEWHERE)]


def test_no_folder_has_more_files_than_one_look_takes_in() -> None:
    count: dict[str, int] = defaultdict(int)
    for top in (*TOPS, "benchmarks", "deploy", "tests"):
        for path in (ROOT / top).rglob("*.py"):
            if path.name != "__init__.py":
                count[str(path.parent.relative_to(ROOT))] += 1
    assert {folder: files for folder, files in count.items() if files > MOST} == {}


@pytest.mark.parametrize("package", sorted(FACES))
def test_the_root_of_a_package_holds_its_face_only(package: str) -> None:
    here = {path.stem for path in sources() if str(path.parent) == package and not path.stem.startswith("__")}
    assert here == FACES[package]


def test_each_package_with_rooms_has_its_face_named() -> None:
    packages = {str(path.parent) for path in sources() if path.name == "__init__.py"}
    with_rooms = {str(Path(package).parent) for package in packages} - {"."}
    assert with_rooms - set(FACES) - {"controlplane/db/migrations"} == set()


def test_no_file_name_means_two_things() -> None:
    named: dict[str, set[str]] = defaultdict(set)
    for path in sources():
        if path.stem not in ROLES:
            named[path.stem].add(str(path.parent))
    # The client's calls and the contract's bodies of one domain have the domain's name.
    domains = {"controlplane/client", "controlplane/contract/bodies"}
    assert {name: folders for name, folders in named.items() if len(folders) > 1 and folders != domains} == {}


@pytest.mark.slow
def test_a_module_is_imported_by_its_own_name() -> None:
    """But for the roles, which take their domain's (`fleet.store` as `fleet`), and imports for their effect alone."""
    renamed = set()
    for path in sources():
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or (node.module or "").partition(".")[0] not in TOPS:
                continue
            folder = ROOT / str(node.module).replace(".", "/")
            for name in node.names:
                own = name.name not in ROLES and (folder / f"{name.name}.py").is_file()
                called = name.asname or name.name
                if own and called != name.name and not called.startswith("_"):
                    renamed.add(f"{path}: {name.name} as {name.asname}")
    assert renamed == set()
