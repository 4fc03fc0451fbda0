"""What the demo starts and how long each step may take: one frozen value, so that tests and people can change it."""

from dataclasses import dataclass, field
from pathlib import Path

from controlplane.command.checkout import ROOT
from controlplane.contract.rollouts import RolloutCreate
from controlplane.contract.slo import Limit
from controlplane.contract.studies import StudyCreate

POOL = "demo"
TRIAL_POOL = "demo-trial"
MODEL = "trimtab-py-5m"


@dataclass(frozen=True)
class Plan:
    """Durations in seconds, rates in requests a second over the whole pool."""

    model_dir: Path = ROOT / "agents/models" / MODEL
    draft_dir: Path = ROOT / "agents/models" / f"{MODEL}-draft"
    data_dir: Path = ROOT / ".trimtab/demo"
    port: int = 7300
    engine_ports: tuple[int, ...] = (7401, 7402)
    trial_port: int = 7409
    rate: float = 6.0
    kv_cache_mib: int = 64
    seed: int = 7
    max_input_tokens: int = 1200
    max_output_tokens: int = 48

    good: dict[str, object] = field(
        default_factory=lambda: {
            "max_num_batched_tokens": 512,
            "prefill_chunk_size": 256,
            "max_num_seqs": 16,
            "num_speculative_tokens": 0,
        }
    )
    bad: dict[str, object] = field(default_factory=lambda: {"max_num_batched_tokens": 4})
    bad_reason: str = "Raise the step budget to 4096 before the evening peak"  # And then somebody typed 4.

    start_limit_s: float = 90.0
    baseline_s: float = 90.0
    alert_limit_s: float = 120.0
    study_limit_s: float = 240.0
    rollout_limit_s: float = 200.0
    after_s: float = 45.0
    resolve_limit_s: float = 150.0
    whole_limit_s: float = 600.0
    memory_limit_bytes: int = 3 * 10**9
    regressed: float = 1.5  # During / before of the p99 that counts as a regression.
    recovered: float = 0.8  # Share of the rise of p99 that has to be gone to count as returned.

    def study(self) -> StudyCreate:
        """What the alert's remedy asks for."""
        rollout = RolloutCreate(
            pool=POOL, revision=0, canary_share=0.5, tolerance=0.2, min_judge_s=30, max_judge_s=150, apply_timeout_s=30
        )
        wanted = {"canary_share", "tolerance", "min_judge_s", "max_judge_s", "apply_timeout_s"}
        return StudyCreate(
            pool=POOL,
            objective="ttft",
            objective_q=0.9,
            constraints=[Limit(metric="itl", q=0.99, limit_s=0.4)],
            workload_s=120,
            max_trials=8,
            max_duration_s=120,
            trial_requests=24,
            finalist_repeats=3,
            seed=self.seed,
            auto_start_rollout=True,
            rollout=rollout.model_dump(include=wanted),
            reason="the regression alert's remedy",
        )
