"""Are stage, place and cause of a fault named first? Injected faults of eighteen kinds, judged by the service's code.

    python -m benchmarks.attribution_measures.named_first [--each 20] [--seed 1] [--kinds ...] [--json FILE]
                                                          [--engines [vllm]] [--marks] [--unguessed 0.3]
    python -m benchmarks.attribution_measures.named_first --show FILE...

A simulated pool of four nodes serves; what its engines would tell goes through the agents' accumulator and reports into
a telemetry store, and the evaluator with the default rules judges it window by window. After a quarter of an hour of
quiet a fault is injected (`attribution_measures/faults.py`). When the first page has fired, and what fires within
`GATHER_S` has joined it, the incident is asked: the leading alert's stage, its place and its likeliest cause. A fault
that pages not within `PATIENCE_S` counts as not named. `--marks`: others post one within five minutes before each
fault, which has nothing to do with it. The model is ours. With `--engines` the nodes are two real
embedded engines, for the nine kinds that these can be given without their host's (`engine_faults.py`); the host's are
in benchmarks/host_faults.py. With `--engines vllm` they are two real vLLM engines with its plugin; nine kinds
(`vllm_faults.py`). Real engines are asked `GATHER_REAL_S` after the page: they serve few requests a second.
"""

import argparse
import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.attribution_measures.faults import KINDS, Fault, marked, usual, usually
from benchmarks.attribution_measures.simulated_pool import World
from benchmarks.attribution_measures.told_service import SIMULATED_NODES, START, Nodes, ToldService, copied
from controlplane.contract.bodies.alerts import Alert, Severity
from controlplane.contract.metrics import WINDOW_S
from controlplane.evidence.binomial import wilson_upper
from controlplane.incidents.ranked_causes import ranked_causes, told_attribution
from controlplane.incidents.same_cause import leading, sign_of

SETTLE_S, GATHER_S, PATIENCE_S = 60.0, 20.0, 300.0
GATHER_REAL_S = 40.0
PAST_REAL_S = 1200.0
"""Of a pool that is known for less than ten minutes only what takes half as long again counts as a regression."""


@dataclass(frozen=True)
class Pool:
    """Who serves, what is usual there, for how long it was so, and what befalls it. pasts: so many different ones;
    faults share them by turns."""

    kinds: Mapping[str, Callable[[random.Random], Fault]]
    usual: World
    nodes: Nodes = SIMULATED_NODES
    past_s: float = 900.0
    pasts: int = 5
    gather_s: float = GATHER_S


SIMULATED = Pool({kind: usually(made) for kind, made in KINDS.items()}, usual(World()))


def with_unguessed(pool: Pool, share: float) -> Pool:
    def made_so(made: Callable[[random.Random], Fault]) -> Callable[[random.Random], Fault]:
        def found(chance: random.Random) -> Fault:
            fault = made(chance)
            return replace(fault, world=replace(fault.world, unguessed=share))

        return found

    kinds = {kind: made_so(made) for kind, made in pool.kinds.items()}
    return replace(pool, kinds=kinds, usual=replace(pool.usual, unguessed=share))


def of_engines() -> Pool:
    from benchmarks.attribution_measures import engine_faults, engine_nodes

    nodes = Nodes(engine_nodes.NAMES, engine_nodes.engine_node, limit_s=1.5)
    usual = engine_faults.world()
    return Pool(engine_faults.KINDS, usual, nodes, past_s=PAST_REAL_S, pasts=1, gather_s=GATHER_REAL_S)


@contextmanager
def of_vllm() -> Iterator[Pool]:
    from benchmarks.attribution_measures import engine_faults, vllm_faults, vllm_nodes

    with tempfile.TemporaryDirectory(prefix="named-vllm-") as folder, vllm_nodes.VllmEngines(Path(folder)) as engines:
        yield Pool(
            vllm_faults.KINDS,
            engine_faults.world(),
            Nodes(vllm_nodes.NAMES, engines.node, limit_s=3.0),
            past_s=PAST_REAL_S,
            pasts=1,
            gather_s=GATHER_REAL_S,
        )


@contextmanager
def pool_of(engines: str | None) -> Iterator[Pool]:
    if engines == "vllm":
        with of_vllm() as pool:
            yield pool
    else:
        yield SIMULATED if engines is None else of_engines()


@dataclass(frozen=True)
class Named:
    """What was named of one fault. after_s: from the fault to the page; None: none came."""

    kind: str
    detail: str
    seed: int
    stage: bool
    place: bool
    cause: bool
    after_s: float | None = None
    metric: str = ""
    said: str = ""


def made_past(pool: Pool, folder: Path, seed: int) -> None:
    service = ToldService(folder, seed, START.timestamp(), pool.nodes)
    service.serve(pool.usual, round(pool.past_s / WINDOW_S), judge=False)
    service.store.tick(service.now())
    service.close()


def injected(pool: Pool, past: Path, folder: Path, fault: Fault, seed: int) -> Named:
    copied(past, folder)
    service = ToldService(folder, seed, START.timestamp() + pool.past_s, pool.nodes)
    try:
        service.serve(pool.usual, round(SETTLE_S / WINDOW_S), judge=True)
        onset_s = service.now_s
        if fault.mark_s is not None:
            service.post_mark(fault.mark_s)
        false = {alert.id for alert in service.alerts()}
        fired_s: float | None = None
        while service.now_s < onset_s + PATIENCE_S:
            service.serve(fault.world, 1, judge=True)
            pages = [one for one in service.alerts() if one.id not in false and one.severity is Severity.PAGE]
            if pages and fired_s is None:
                fired_s = service.now_s
            if fired_s is not None and service.now_s >= fired_s + pool.gather_s:
                break
        alerts = [one for one in service.alerts() if one.id not in false]
        if fired_s is None:
            return Named(fault.kind, fault.detail, seed, False, False, False, said="no page")
        return asked(fault, seed, alerts, fired_s - onset_s)
    finally:
        service.close()


def asked(fault: Fault, seed: int, alerts: Sequence[Alert], after_s: float) -> Named:
    lead = leading([sign_of(alert) for alert in alerts]).alert_id
    alert = next(one for one in alerts if one.id == lead)
    told = alert.diagnosis
    cause = next(iter(ranked_causes(alerts)), {})
    moved = told_attribution([alert, *(one for one in alerts if one is not alert)])
    place = None if moved is None else moved.place
    found = None if place is None else (place.label, place.value)
    stage = "" if told is None else told.stage or ""
    return Named(
        kind=fault.kind,
        detail=fault.detail,
        seed=seed,
        stage=stage in fault.stages,
        place=found == fault.place or found in fault.also,
        cause=cause.get("cause") == fault.cause,
        after_s=after_s,
        metric=alert.labels.get("metric", ""),
        said=f"{stage}; {found}; {cause.get('cause')}",
    )


def run(pool: Pool, kinds: Sequence[str], each: int, seed: int, limit_s: float, pasts: Path | None) -> list[Named]:
    """Kinds by turns, so that a run that is cut short has as many of each. limit_s: no fault begins later; pasts: where
    quiet pasts are kept, and taken from where they are there."""
    folder, began = Path(tempfile.mkdtemp(prefix="attribution-")), time.monotonic()
    found: list[Named] = []
    try:
        for number in range(each):
            past = (pasts or folder) / f"past-{number % pool.pasts}"
            if number < pool.pasts and not past.exists():
                made_past(pool, past, 1000 * seed + number)
            for kind in kinds:
                if time.monotonic() - began > limit_s:
                    return found
                own = 100_000 * seed + 100 * number + list(pool.kinds).index(kind)
                fault = pool.kinds[kind](random.Random(own))
                found.append(injected(pool, past, folder / "fault", fault, own))
                shutil.rmtree(folder / "fault")
                print(asdict(found[-1]), flush=True)
        return found
    finally:
        shutil.rmtree(folder)


def of(right: int, count: int) -> str:
    """With Wilson's 95 % interval."""
    low, high = 1.0 - wilson_upper(count - right, count, 1.96), wilson_upper(right, count, 1.96)
    return f"{right} of {count} ({100 * low:.0f} to {100 * high:.0f} %)"


def show(found: Sequence[Named]) -> None:
    print("\n| fault | stage | place | cause | median page after |\n|---|---|---|---|---|")
    for kind in [*dict.fromkeys(one.kind for one in found), "all"]:
        those = [one for one in found if kind in (one.kind, "all")]
        after = sorted(one.after_s for one in those if one.after_s is not None)
        middle = f"{after[len(after) // 2]:.0f} s" if after else "-"
        cells = [of(sum(getattr(one, what) for one in those), len(those)) for what in ("stage", "place", "cause")]
        print(f"| {kind} | {' | '.join(cells)} | {middle} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=20, help="faults of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="*", help="default: all")
    parser.add_argument(
        "--engines", nargs="?", const="embedded", choices=("embedded", "vllm"), help="the nodes are real engines"
    )
    parser.add_argument("--limit-s", type=float, default=1e9, help="no fault begins after so many seconds")
    parser.add_argument(
        "--past-s", type=float, help="how long it was quiet before; a pool known for an hour tells more"
    )
    parser.add_argument("--pasts", type=Path, help="where quiet pasts are kept for runs to come, of whatever seed")
    parser.add_argument("--marks", action="store_true", help="a mark of others comes by chance before each fault")
    parser.add_argument(
        "--unguessed", type=float, default=0.0, help="of simulated requests, those that drafts never fit"
    )
    parser.add_argument("--json", type=Path, help="where what was named of each fault is written besides")
    parser.add_argument("--show", type=Path, nargs="+", help="no run: the table of what earlier ones wrote with --json")
    wanted = parser.parse_args()
    if wanted.show is not None:
        show([Named(**one) for path in wanted.show for one in json.loads(path.read_text())])
        return
    with pool_of(wanted.engines) as pool:
        if wanted.past_s is not None:
            pool = replace(pool, past_s=wanted.past_s)
        if wanted.unguessed:
            pool = with_unguessed(pool, wanted.unguessed)
        if wanted.marks:
            pool = replace(pool, kinds={kind: marked(made) for kind, made in pool.kinds.items()})
        kinds = list(pool.kinds) if wanted.kinds is None else wanted.kinds
        if unknown := set(kinds) - set(pool.kinds):
            parser.error(f"--kinds: {', '.join(sorted(unknown))}: not of {', '.join(pool.kinds)}")
        found = run(pool, kinds, wanted.each, wanted.seed, wanted.limit_s, wanted.pasts)
    if wanted.json is not None:
        wanted.json.write_text(json.dumps([asdict(one) for one in found], indent=1))
    show(found)


if __name__ == "__main__":
    main()
