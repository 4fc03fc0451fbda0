"""What the demo starts and how long each step may take: one frozen value, so that tests and people can change it."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from controlplane.command.checkout import ROOT
from controlplane.contract.rollouts import RolloutCreate
from controlplane.contract.slo import Limit
from controlplane.contract.studies import StudyCreate

POOL = "demo"
TRIAL_POOL = "demo-trial"
MODEL = "trimtab-py-5m"
TYPICAL_PROMPT, SLOW_PREFILL_S, BAD_TOKENS = 250, 0.25, (8, 16)
ONE_CORE = 2.0
"""How much longer everything takes where one core has to do the work of two."""


@dataclass(frozen=True)
class VllmServers:
    """What every vLLM server of the demo is started with. Up to the capacities its limits move while it serves."""

    executable: Path
    max_model_len: int = 2048
    dtype: str = "float32"
    capacity_tokens: int = 2048
    capacity_seqs: int = 32
    capacity_drafts: int = 4


@dataclass(frozen=True)
class Plan:
    """Durations in seconds, rates in requests a second over the whole pool. Without `vllm` the engine is embedded."""

    model_dir: Path = ROOT / "agents/models" / MODEL
    draft_dir: Path = ROOT / "agents/models" / f"{MODEL}-draft"
    data_dir: Path = ROOT / ".trimtab/demo"
    vllm: VllmServers | None = None
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
    baseline_s: float = 75.0  # At its end the rule's baseline, without its newest 40 s, holds 200 requests.
    alert_limit_s: float = 120.0
    study_limit_s: float = 260.0
    rollout_limit_s: float = 200.0
    webhook_limit_s: float = 60.0
    back_limit_s: float = 120.0  # From the alert until p99 is back.
    back_s: float = 20.0  # The newest span of time whose ttft p99 is to be back, and the fewest requests in it.
    back_requests: int = 50
    early_alarm_s: float = 60.0  # How long an alarm before any change is waited out.
    after_s: float = 20.0
    after_requests: int = 100
    resolve_limit_s: float = 150.0
    whole_limit_s: float = 600.0
    memory_limit_bytes: int = 3 * 10**9
    regressed: float = 1.5  # During / before of the p99 that counts as a regression.
    recovered: float = 0.8  # Share of the rise of p99 that has to be gone to count as returned.
    itl_limit_s: float = 0.4  # What the study keeps itl p99 under.
    study_s: float = 180.0  # What the study may take, of `study_limit_s`.
    trial_requests: int = 20

    @classmethod
    def on_vllm(cls, executable: Path) -> Self:
        """The same story on vLLM's CPU build, for two cores shared by three servers and all the rest.

        Seen there with the bundled model in float32: a step takes 4 to 10 ms; under this traffic a server spends a
        sixth of a core on the good limits and two fifths on the bad one, whose steps are many more. Three servers
        start in one to two minutes, and hold about 1 GB each.
        """
        return cls(
            vllm=VllmServers(executable),
            # So little that the bad limits do not fill both cores: the trial node's figures have to mean something.
            rate=3.0,
            kv_cache_mib=256,
            max_input_tokens=1600,
            good={
                "max_num_batched_tokens": 512,
                "prefill_chunk_size": 256,
                "max_num_seqs": 8,
                "num_speculative_tokens": 0,
            },
            # Little more than requests run at once: each still gets its token, and prompts hardly any.
            bad={"max_num_batched_tokens": 8},
            bad_reason="Raise the step budget to 8192 before the evening peak",  # And then somebody typed 8.
            start_limit_s=420.0,
            # At its end the regression rule's baseline, which leaves out the newest 40 s, holds 200 requests and more.
            baseline_s=120.0,
            alert_limit_s=180.0,
            study_limit_s=400.0,
            study_s=190.0,
            trial_requests=20,
            itl_limit_s=0.6,
            rollout_limit_s=240.0,
            whole_limit_s=1200.0,
            memory_limit_bytes=8 * 10**9,
        )

    def for_steps_of(self, step_s: float) -> Self:
        """The plan for an engine whose decode steps take `step_s`: what is broken on vLLM follows the machine's speed.

        So that a typical prompt (250 tokens) takes about a quarter of a second under the bad budget: several times
        what it took before, and far from all that the servers can do. Within what the node can run: 8 to 16 tokens.
        """
        if self.vllm is None or not math.isfinite(step_s):
            return self
        tokens = min(max(round(TYPICAL_PROMPT * step_s / SLOW_PREFILL_S), BAD_TOKENS[0]), BAD_TOKENS[1])
        return replace(self, bad={**self.bad, "max_num_batched_tokens": tokens})

    def patient(self, factor: float) -> Self:
        """Every limit of time longer by `factor`, for a machine that is slow. No judgement is relaxed."""
        return replace(
            self,
            start_limit_s=factor * self.start_limit_s,
            alert_limit_s=factor * self.alert_limit_s,
            study_limit_s=factor * self.study_limit_s,
            study_s=factor * self.study_s,
            rollout_limit_s=factor * self.rollout_limit_s,
            resolve_limit_s=factor * self.resolve_limit_s,
            whole_limit_s=factor * self.whole_limit_s,
        )

    def study(self) -> StudyCreate:
        """What the alert's remedy asks for."""
        rollout = RolloutCreate(
            pool=POOL, revision=0, canary_share=0.5, tolerance=0.2, min_judge_s=30, max_judge_s=150, apply_timeout_s=30
        )
        wanted = {"canary_share", "tolerance", "min_judge_s", "max_judge_s", "apply_timeout_s"}
        return StudyCreate(
            pool=POOL,
            objective="e2e",
            objective_q=0.9,
            constraints=[Limit(metric="itl", q=0.99, limit_s=self.itl_limit_s)],
            workload_s=120,
            max_trials=6,
            max_duration_s=self.study_s,
            trial_requests=self.trial_requests,
            # Where four pairs decide nothing (the machine does other things, too) it takes up to three times as many.
            finalist_repeats=4,
            seed=self.seed,
            auto_start_rollout=True,
            rollout=rollout.model_dump(include=wanted),
            reason="the regression alert's remedy",
        )
