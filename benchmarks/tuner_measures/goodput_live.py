"""Goodput and the largest load, live: what a study finds for a busier day than the pool has, on real engines.

    python -m benchmarks.tuner_measures.goodput_live --load 8 --runs 3
    python -m benchmarks.tuner_measures.goodput_live --load 4 --engine vllm
    python -m benchmarks.tuner_measures.goodput_live --objective max_load --load 1 --study 900
    python -m benchmarks.tuner_measures.goodput_live --engine vllm --space watermark=0..0.3 --also tpot:0.5
    python -m benchmarks.tuner_measures.goodput_live --engine vllm --world documents --limit "tpot:0.95<=0.05"
    python -m benchmarks.tuner_measures.goodput_live --model GEMMA --world documents --document 1000

Each run is a fleet of its own, as `make run` starts it (service, two serving nodes, a trial node, agents, steady
traffic), and one study of it with `objective: "goodput"` or `"max_load"`. A row a run: good requests a second by
default and with the winner, or the largest loads of both, measured again in pairs on traffic that the search did not
see, the gain with its interval, what won. `--space` searches these knobs alone, those that nodes declare among them;
with `--also` what is left to choose among follows. `--world documents` is a pool of one engine as it starts by itself,
to which people chat while others have documents read (`mixed_world`). GEMMA: as of `engine_rivals/fetch_gemma.py`.
"""

import argparse
import platform
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from agents.backends.vllm.doctor.installation import default_executable
from agents.demo.demo_fleet import Fleet
from agents.demo.plan import POOL, Plan
from benchmarks.tuner_measures.live_fleet import all_nodes, study_live
from benchmarks.tuner_measures.mixed_world import DOCUMENT_INPUT, mixed_plan, start_with_documents, with_model
from controlplane.contract.bodies.knob_schema import OF_LIMITS
from controlplane.contract.bodies.studies import KnobRange, Objective, Study, StudyCreate, StudyResult
from controlplane.contract.planning.carried_text import carried_text
from controlplane.contract.planning.objective_text import front_text, more_a_second
from controlplane.terminal.bodies.limit_option import parse_limit
from controlplane.terminal.studies.study_options import also_of, space_of
from tests.processes import free_ports
from tuner.study.study_text import changes


def row(number: int, study: Study) -> str:
    result = study.result
    if result is None:
        return f"| {number} | {study.state}: {study.error} | | | | |"
    default, winner = (rate(value) for value in (result.default_objective_s, result.winner_objective_s))
    if result.default_carries is not None:
        default = carried_text(result.default_carries)
        winner = "-" if result.winner_carries is None else carried_text(result.winner_carries)
    changed = "-" if result.winner is None else changes(result.winner, result.default)
    return f"| {number} | {result.verdict} | {default} | {winner} | {gain(result)} | {changed} |"


def rate(seconds_per_good: float | None) -> str:
    return "-" if not seconds_per_good else f"{1.0 / seconds_per_good:.2f}"


def gain(result: StudyResult) -> str:
    """Of the rate, with its interval, in percent."""
    if result.improvement is None or result.interval is None:
        return "-"
    estimate, low, high = (f"{100 * more_a_second(less):.0f}" for less in (result.improvement, *result.interval))
    return f"{estimate} % ({low} to {high}), {result.repeats} pairs"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=1)
    options.add_argument("--engine", choices=("embedded", "vllm"), default="embedded")
    options.add_argument("--model", type=Path, help="folder of what the engines serve; the bundled one where left out")
    options.add_argument("--load", type=float, default=4.0, help="times the pool's traffic")
    options.add_argument("--limit", action="append", default=[], help="METRIC:QUANTILE<=SECONDS; repeatable")
    options.add_argument("--history", type=float, default=120.0, help="seconds of traffic that are captured")
    options.add_argument("--study", type=float, default=300.0, help="seconds that the study may take")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--world", choices=("usual", "documents"), default="usual")
    options.add_argument("--chat", type=float, default=1.0, help="turns a second of the world with documents")
    options.add_argument("--answer", type=int, default=160, help="tokens of its longest answers")
    options.add_argument("--documents", type=float, default=0.2, help="documents a second of it")
    options.add_argument("--document", type=int, default=DOCUMENT_INPUT, help="tokens of the longest of them")
    options.add_argument("--trial-requests", type=int, default=120)
    options.add_argument("--finalists", type=int, default=3)
    options.add_argument("--objective", choices=OF_LIMITS, default="goodput")
    options.add_argument("--trials", type=int, default=10)
    options.add_argument("--pairs", type=int, default=6)
    options.add_argument("--space", action="append", default=[], help="as of `tailwright studies start`; repeatable")
    options.add_argument("--also", action="append", default=[], help="METRIC:QUANTILE; repeatable")
    wanted = options.parse_args()
    limits = [parse_limit(text, "--limit") for text in wanted.limit or ["ttft:0.95<=0.2", "e2e:0.95<=0.5"]]
    told = ", ".join(f"{limit.metric} at most {limit.limit_s:g} s" for limit in limits)
    versions = f"seeds from {wanted.seed}, python {platform.python_version()}"
    print(f"{wanted.engine}, load {wanted.load:g}, {wanted.objective}: {told}; {versions}")
    print(
        "| run | verdict | good a second, or load, by default | with the winner | more | what changes |\n"
        + 6 * "|---"
        + "|",
        flush=True,
    )
    for number in range(wanted.runs):
        service, first, second, trial = free_ports(4)
        with tempfile.TemporaryDirectory() as folder:
            usual = Plan() if wanted.engine == "embedded" else Plan.on_vllm(default_executable().absolute())
            usual = replace(usual, port=service, engine_ports=(first, second), trial_port=trial)
            if wanted.model is not None:
                usual = with_model(usual, wanted.model.absolute())
            start: Callable[[Fleet], int] = all_nodes
            if wanted.world == "documents":
                usual = mixed_plan(usual, chat=wanted.chat, answer=wanted.answer)
                start = partial(start_with_documents, documents=wanted.documents, longest=wanted.document)
            plan = replace(usual, data_dir=Path(folder) / "data", seed=wanted.seed + number)
            asked = StudyCreate(
                pool=POOL,
                objective=wanted.objective,
                constraints=limits,
                load=wanted.load,
                workload_s=wanted.history,
                max_trials=wanted.trials,
                max_duration_s=wanted.study,
                trial_requests=wanted.trial_requests,
                finalists=wanted.finalists,
                finalist_repeats=wanted.pairs,
                seed=plan.seed,
                propose_rollout=False,
                space={name: KnobRange.model_validate(of) for name, of in space_of(wanted.space).items()},
                also=[Objective.model_validate(one) for one in also_of(wanted.also)],
            )
            with study_live(plan, asked, asked.max_duration_s + 120, start) as (client, study):
                print(row(number + 1, study), flush=True)
                for ran in client.trials(study.id):
                    print(f"trial {ran.number}, {ran.kind}: {ran.knobs}: {ran.objective_s}, {ran.also_s}")
                for one in study.result.front if study.result else ():
                    told = ", ".join(front_text(aim, one) for aim in asked.objectives)
                    print(f"left to choose among: {told}: {one.knobs}")


if __name__ == "__main__":
    main()
