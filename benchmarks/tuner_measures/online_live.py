"""Careful tuning in production, live: a pool of two real engines under steady traffic, and no trial node.

    python -m benchmarks.tuner_measures.online_live --engine vllm
    python -m benchmarks.tuner_measures.online_live --engine vllm --space max_num_batched_tokens=32..512 --step 2

The pool begins as `make run` has it. A row a step: what it moved, what came of it, how long its canary was judged and
its rollout took, the objective of the control and the canary's ratio to it. Then the objective before the first step
and after the last, and what became of the requests. With `--cancel` a further study is cancelled while its first canary
is judged, and it is timed until both nodes run as before.
"""

import argparse
import platform
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agents.backends.vllm.doctor.installation import default_executable
from agents.demo.plan import POOL, Plan
from benchmarks.engine_measures.machine import describe_machine
from benchmarks.tuner_measures.live_fleet import ENDED, fleet_live, serving_nodes
from controlplane.client import Client
from controlplane.contract.bodies.rollouts import Rollout, RolloutPhase
from controlplane.contract.bodies.studies import KnobRange, Study, StudyCreate
from controlplane.contract.planning.online_mode import OnlineMode
from controlplane.terminal.bodies.limit_option import parse_limit
from controlplane.terminal.studies.study_options import space_of
from tests.processes import free_ports, wait_for

HEAD = "| step | moves | came to | judged, s | its rollout, s | control, ms | ratio |\n" + 7 * "|---" + "|"


def row(
    number: int, rollout: Rollout, step_text: str, came_to: str, control_s: float | None, ratio: float | None
) -> str:
    judged = _seconds(rollout.judging_since, rollout.ended_at)
    whole = _seconds(rollout.started_at, rollout.ended_at)
    control = "-" if control_s is None else f"{1000 * control_s:.1f}"
    return f"| {number} | {step_text} | {came_to} | {judged} | {whole} | {control} | {_number(ratio)} |"


def _seconds(start: datetime | None, end: datetime | None) -> str:
    return "-" if start is None or end is None else f"{(end - start).total_seconds():.0f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def tell_steps(client: Client, study: Study, told: int) -> int:
    """Print the steps that have ended since; how many have been told in all."""
    ended = [one for one in client.trials(study.id)[::-1] if one.step is not None and one.step.outcome is not None]
    for trial in ended[told:]:
        step = trial.step
        assert step is not None and step.outcome is not None
        if step.rollout_id is None:
            print(f"| {trial.number} | {step.title} | {step.outcome}: {step.message} | | | | |", flush=True)
            continue
        rollout = client.rollout(step.rollout_id)
        print(row(trial.number, rollout, step.title, step.outcome, step.control_s, step.ratio), flush=True)
    return len(ended)


def quantile_ms(client: Client, metric: str, q: float, span_s: float) -> str:
    """Of the pool over the last seconds."""
    now = datetime.now(UTC)
    found = client.quantiles(metric, (q,), start=now - timedelta(seconds=span_s), end=now, pool=POOL).series
    return f"{1000 * found[0].quantiles[str(q)]:.1f} ms of {found[0].count}" if found else "nothing"


def runs_text(client: Client) -> str:
    """What each node runs, read back."""
    return "; ".join(f"{node.node} {node.effective.knobs if node.effective else None}" for node in client.nodes())


def ended_study(client: Client, asked: StudyCreate, limit_s: float) -> Study:
    """In production until its end; its steps are told as they end."""
    study, told = client.create_study(asked), 0

    def ended() -> bool:
        nonlocal told
        told = tell_steps(client, study, told)
        return client.study(study.id).state in ENDED

    wait_for("the study ends", ended, limit_s)
    return client.study(study.id)


def cancel(client: Client, asked: StudyCreate, limit_s: float) -> None:
    """A study that is cancelled while its first canary is judged, and how soon both nodes run as before."""
    before = {node.node: node.effective.revision for node in client.nodes() if node.effective is not None}
    study = client.create_study(asked)

    def judged() -> bool:
        newest = client.rollouts()[0]
        return newest.spec.study_id == study.id and newest.phase is RolloutPhase.JUDGING

    wait_for("the first canary is judged", judged, limit_s)
    began = time.monotonic()
    client.cancel_study(study.id)

    def back() -> bool:
        return before == {node.node: node.effective.revision for node in client.nodes() if node.effective is not None}

    wait_for("the canary runs as before", back, 120)
    print(f"cancelled while its canary was judged: both nodes run as before after {time.monotonic() - began:.2f} s")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--engine", choices=("embedded", "vllm"), default="vllm")
    options.add_argument("--rate", type=float, help="requests a second of the pool; else as the plan has it")
    options.add_argument("--history", type=float, default=120.0, help="seconds of traffic before the study")
    options.add_argument("--after", type=float, default=60.0, help="seconds of traffic after it")
    options.add_argument("--study", type=float, default=600.0, help="seconds that it may take")
    options.add_argument("--objective", default="ttft:0.5", help="METRIC:QUANTILE")
    options.add_argument("--limit", action="append", default=[], help="METRIC:QUANTILE<=SECONDS; repeatable")
    options.add_argument("--space", action="append", default=[], help="as of `tailwright studies start`; repeatable")
    options.add_argument("--step", type=float, default=2.0)
    options.add_argument("--steps", type=int, default=8, help="at most")
    options.add_argument("--judge", type=float, default=90.0, help="seconds a canary is judged at most")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--patience", type=float, default=1.0, help="of a busy machine: times the plan's limits")
    options.add_argument("--cancel", action="store_true")
    wanted = options.parse_args()
    metric, q = wanted.objective.split(":")
    service, first, second, trial = free_ports(4)
    with tempfile.TemporaryDirectory() as folder:
        usual = Plan() if wanted.engine == "embedded" else Plan.on_vllm(default_executable().absolute())
        plan = replace(usual, port=service, engine_ports=(first, second), trial_port=trial, seed=wanted.seed)
        plan = replace(plan, data_dir=Path(folder) / "data", rate=wanted.rate or usual.rate).patient(wanted.patience)
        asked = StudyCreate(
            pool=POOL,
            objective=metric,
            objective_q=float(q),
            constraints=[parse_limit(text, "--limit") for text in wanted.limit],
            max_trials=wanted.steps,
            max_duration_s=wanted.study,
            space={name: KnobRange.model_validate(of) for name, of in space_of(wanted.space).items()},
            online=OnlineMode(step=wanted.step),
            rollout={"canary_share": 0.5, "min_judge_s": 15, "max_judge_s": wanted.judge, "wave_judge_s": 15},
        )
        told = f"python {platform.python_version()}, seed {wanted.seed}, {plan.rate:g} requests a second"
        print(f"{describe_machine('cpu')}\n- {told}")
        with fleet_live(plan, serving_nodes) as (fleet, client):
            time.sleep(wanted.history)
            print(
                f"before: {wanted.objective} {quantile_ms(client, metric, float(q), 60)}; {runs_text(client)}\n{HEAD}"
            )
            study = ended_study(client, asked, wanted.study + 2 * wanted.judge + 120)
            print(f"\n{study.state}: {study.result.summary if study.result else study.error}")
            time.sleep(wanted.after)
            print(
                f"after: {wanted.objective} {quantile_ms(client, metric, float(q), wanted.after)}; {runs_text(client)}"
            )
            if wanted.cancel:
                cancel(client, asked, 120)
            assert fleet.traffic is not None
            print(f"traffic: {fleet.traffic.log_end(1)}")


if __name__ == "__main__":
    main()
