"""A canary that loses requests, live: two real embedded engines, their agents, the service, and a small load.

    python benchmarks/canary_live.py [--rate 8] [--history 60]

Both engines refuse (429) what finds somebody waiting (`--max-waiting 1`); with the good configuration nobody waits for
long. The canary's revision lets one request run at a time, so it turns away what comes meanwhile. Printed: the seconds
from the canary's confirmation to the verdict, and what the judge saw.
"""

import argparse
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx

from agents.demo.demo_fleet import Fleet
from agents.demo.engines import EmbeddedEngines
from agents.demo.plan import MODEL, POOL, Plan
from agents.demo.processes import Child, Processes
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.rollouts import ENDED, RolloutCreate
from tests.processes import free_ports, wait_for


class Choosy(Processes):
    """Engines started through it refuse what finds somebody waiting."""

    def start(self, name: str, arguments: Sequence[str]) -> Child:
        refusing = ["--max-waiting", "1"] if name.endswith("-engine") else []
        return super().start(name, [*arguments, *refusing])


class Load:
    """Requests to all engines in turn, at a steady rate whatever they answer."""

    def __init__(self, ports: tuple[int, ...], rate: float) -> None:
        self.answers: Counter[tuple[int, int]] = Counter()
        self._ports, self._rate = ports, rate
        self._stopping = threading.Event()
        self._http = httpx.Client(timeout=60, limits=httpx.Limits(max_connections=200))
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(1.0 / self._rate):
            port = self._ports[number % len(self._ports)]
            threading.Thread(target=self._one, args=(port, number), daemon=True).start()
            number += 1

    def _one(self, port: int, number: int) -> None:
        body = {"model": MODEL, "prompt": f"def f{number}(x):\n" * 20, "max_tokens": 60, "ignore_eos": True}
        answer = self._http.post(f"http://127.0.0.1:{port}/v1/completions", json=body)
        self.answers[port, answer.status_code] += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=8.0, help="requests a second of both engines together")
    parser.add_argument("--history", type=float, default=60.0, help="seconds of traffic before the canary")
    wanted = parser.parse_args()
    service, first, second, trial = free_ports(4)
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(data_dir=Path(folder) / "data", port=service, engine_ports=(first, second), trial_port=trial)
        fleet = Fleet(plan)
        fleet.clear()
        fleet.processes = Choosy(plan.data_dir / "logs")
        fleet.engines = EmbeddedEngines(plan)
        load: Load | None = None
        try:
            fleet.start_service()
            wait_for("the service is ready", lambda: httpx.get(f"{fleet.url}/readyz").status_code == 200, 120)
            for name, port in (("node-1", first), ("node-2", second)):
                fleet.start_node(name, port, POOL, "serving")
            with fleet.client("admin-token") as client:
                wait_for("nodes", lambda: sum(n.healthy and n.effective is not None for n in client.nodes()) == 2, 120)
                load = Load(plan.engine_ports, wanted.rate)
                time.sleep(wanted.history)
                revision = client.create_config(RevisionCreate(knobs={**plan.good, "max_num_seqs": 1}))
                made = client.create_rollout(RolloutCreate(pool=POOL, revision=revision.number, canary_share=0.5))
                print(*(made.plan.says if made.plan is not None else []), sep="\n")
                wait_for("the end", lambda: client.rollout(made.id).phase in ENDED, 300)
                found = client.rollout(made.id)
                assert found.judging_since is not None and found.ended_at is not None
                took_s = (found.ended_at - found.judging_since).total_seconds()
                print(f"{found.phase.value}, {found.verdict} {took_s:.0f} s after the canary had confirmed")
                print("served:", found.evidence["served"])
                print("e2e:", {arm: found.evidence["metrics"]["e2e"][arm] for arm in ("control", "canary")})
                print("answers by (port, status):", dict(load.answers))
        finally:
            if load is not None:
                load.stop()
            fleet.stop()


if __name__ == "__main__":
    main()
