"""What the demo starts and how long each step may take: one frozen value, so that tests and people can change it."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.terminal.checkout import ROOT

POOL = "demo"
TRIAL_POOL = "demo-trial"
MODEL = "tailwright-py-5m"
ONE_CORE = 2.0
"""How much longer everything takes where one core has to do the work of two."""
FREE_CORES = 1.5
"""With less than this left by other processes the plan's traffic is `busy_rate`."""
RULE_BASELINE, RULE_NEWEST_S = 210, 40.0
"""The regression rule learns from 200 requests, and from none of the newest 40 s."""


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
    data_dir: Path = ROOT / ".tailwright/demo"
    vllm: VllmServers | None = None
    port: int = 7300
    engine_ports: tuple[int, ...] = (7401, 7402)
    trial_port: int = 7409
    rate: float = 9.0
    busy_rate: float = 6.0
    kv_cache_mib: int = 64
    seed: int = 7
    traffic: str = "chat"  # A shape of `tuner.workload.generate`.
    arrival_cv: float = 1.5
    max_input_tokens: int = 1200
    max_output_tokens: int = 48
    max_in_flight: int = 256

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

    start_limit_s: float = 180.0  # The first start on a machine builds and times kernels, node after node.
    alert_limit_s: float = 120.0
    study_limit_s: float = 350.0
    rollout_limit_s: float = 200.0
    webhook_limit_s: float = 60.0
    back_limit_s: float = 120.0  # From the alert until p99 is back.
    back_s: float = 20.0  # The newest span of time whose ttft p99 is to be back, and the fewest requests in it.
    back_requests: int = 50
    early_alarm_s: float = 60.0  # How long an alarm before any change is waited out.
    after_s: float = 20.0
    after_requests: int = 100
    resolve_limit_s: float = 150.0
    whole_limit_s: float = 700.0
    memory_limit_bytes: int = 3 * 10**9
    regressed: float = 1.5  # During / before of the p99 that counts as a regression.
    recovered: float = 0.8  # Share of the rise of p99 that has to be gone to count as returned.
    itl_limit_s: float = 0.4  # What the study keeps itl p99 under.
    study_s: float = 270.0  # What the study may take, of `study_limit_s`.
    objective: tuple[str, float] = ("e2e", 0.5)
    """What the study lowers. The middle is decided soonest by the few requests that a demo has, if it is what differs;
    the tail is held by the limit."""
    study_load: float = 1.0
    """Times the pool's traffic at which the study measures."""
    max_trials: int = 6
    trial_requests: int = 20

    @property
    def baseline_s(self) -> float:
        """From the first request until the rule's baseline is whole."""
        return RULE_BASELINE / self.rate + RULE_NEWEST_S

    @classmethod
    def on_vllm(cls, executable: Path) -> Self:
        """The same story on vLLM's CPU build, for two cores shared by three servers and all the rest.

        Seen there with the bundled model in float32: a step takes 4 to 10 ms, whatever is in it. Three servers start in
        about a minute, and hold about 2 GB each.
        """
        return cls(
            vllm=VllmServers(executable),
            # So little that cores are left over: the figures of the trial node have to mean something.
            rate=6.0,
            busy_rate=4.0,
            kv_cache_mib=256,
            # A small budget keeps steps short where answers are long. Now the fleet answers out of passages: prompts of
            # 300 tokens, answers of eight. There it makes first tokens wait, as the study is to find. (Not pieces of
            # prompts: vLLM splits none while a request is alone.)
            traffic="rag",
            max_input_tokens=600,
            max_output_tokens=53,
            good={
                "max_num_batched_tokens": 32,
                "prefill_chunk_size": 0,
                "max_num_seqs": 4,
                "num_speculative_tokens": 0,
            },
            # Somebody meant 8192.
            bad={"max_num_batched_tokens": 8},
            bad_reason="Raise the step budget to 8192 before the evening peak",
            start_limit_s=420.0,
            alert_limit_s=180.0,
            study_limit_s=400.0,
            study_s=190.0,
            objective=("ttft", 0.5),
            # Of the evening peak that somebody meant to prepare for: waits differ more there, a run takes half as long.
            study_load=2.0,
            max_trials=4,
            trial_requests=14,
            itl_limit_s=0.6,
            rollout_limit_s=240.0,
            whole_limit_s=1200.0,
            memory_limit_bytes=8 * 10**9,
        )

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

    def beside_others(self, free_cores: float) -> Self:
        """The plan where other processes leave so much of the cores' time: its traffic is what that can serve."""
        return self if free_cores >= FREE_CORES else replace(self, rate=min(self.rate, self.busy_rate))

    def study(self) -> StudyCreate:
        """What the alert's remedy asks for."""
        rollout = RolloutCreate(
            pool=POOL, revision=0, canary_share=0.5, tolerance=0.2, min_judge_s=15, max_judge_s=150, apply_timeout_s=30
        )
        wanted = {"canary_share", "tolerance", "min_judge_s", "max_judge_s", "apply_timeout_s"}
        return StudyCreate(
            pool=POOL,
            objective=self.objective[0],
            objective_q=self.objective[1],
            constraints=[Limit(metric="itl", q=0.99, limit_s=self.itl_limit_s)],
            workload_s=120,
            load=self.study_load,
            max_trials=self.max_trials,
            max_duration_s=self.study_s,
            trial_requests=self.trial_requests,
            # A heat costs runs that a demo has no time for. Pairs end when they have decided: after three to twelve.
            finalists=1,
            finalist_repeats=4,
            seed=self.seed,
            auto_start_rollout=True,
            rollout=rollout.model_dump(include=wanted),
            reason="the regression alert's remedy",
        )
