"""A service with as many nodes as are wanted, written as rows, and what the fleet's page takes with them.

`python -m benchmarks.large_fleet`: 10,000 nodes, none of which has reported telemetry. Times are medians of a warm
service and of its first answers to a browser's session alike, in ms, the page whole: the parts that the page is not
kept waiting for included.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import httpx

from agents.demo.engines import TAILWRIGHT
from agents.demo.processes import Processes
from controlplane.contract.bodies.nodes import ConfigStatus, NodeRole
from controlplane.contract.clock import utc_now
from controlplane.contract.knobs import EngineConfig
from controlplane.db.database import Database
from controlplane.fleet import revisions, store
from controlplane.fleet.tables import NodeRow
from tests.processes import free_port, wait_for

POOLS = 5
GOAL_MS = 400.0
ASKED = ("/api/v1/fleet", "/api/v1/node-figures", "/fleet", "/parts/fleet/fleet_cells", "/parts/fleet/fleet")


def enrol(database: Database, count: int) -> None:
    """So many nodes in `POOLS` pools, of three configurations; each hundredth does not serve."""
    now = utc_now()
    with database.session() as session:
        found = [
            revisions.keep(session, EngineConfig(max_num_seqs=seqs), note="", actor="benchmark", now=now)[0]
            for seqs in (8, 32, 64)
        ]
        for pool in range(POOLS):
            store.place(session, f"first-{pool}", pool=f"pool-{pool}", role="serving", backend="vllm", now=now)
            store.set_pool_revision(session, f"pool-{pool}", found[pool % 3].number, now)
        for at in range(count - POOLS):
            runs = found[at % 3]
            row = NodeRow(
                node=f"gpu-{at:05}",
                pool=f"pool-{at % POOLS}",
                role=NodeRole.SERVING.value,
                backend="vllm",
                config_status=ConfigStatus.APPLIED.value,
                created_at=now,
                connected=True,
                connection="benchmark",
                last_seen=now,
                healthy=at % 100 != 0,
                effective={"revision": runs.number, "knobs": runs.knobs.knobs()},
            )
            session.add(row)
        session.flush()


def answered_ms(url: str, token: str, path: str, times: int = 5, apart_s: float = 2.0) -> float:
    """Median time of an answer, each asked for so long after the one before that no viewer shares it."""
    with httpx.Client(base_url=url, timeout=60) as client:
        if path.startswith("/api/"):
            client.headers["Authorization"] = f"Bearer {token}"
        else:
            client.post("/login", data={"token": token})
        found = []
        for _ in range(times):
            began_s = time.perf_counter()
            client.get(path).raise_for_status()
            found.append(1000 * (time.perf_counter() - began_s))
            time.sleep(apart_s)
    return median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    count = parser.parse_args().nodes
    with tempfile.TemporaryDirectory() as folder:
        processes, port, data_dir = Processes(Path(folder) / "logs"), free_port(), Path(folder) / "data"
        url = f"http://127.0.0.1:{port}"
        processes.start("service", [*TAILWRIGHT, "up", "--data-dir", str(data_dir), "--port", str(port), "--no-tuner"])
        try:
            wait_for("the service is ready", lambda: httpx.get(f"{url}/readyz").status_code == 200)
            (file,) = data_dir.glob("*.db")
            database = Database(f"sqlite:///{file}")
            enrol(database, count)
            database.close()
            token = (data_dir / "admin-token").read_text().strip()
            print(f"{count:,} nodes; the goal of the page is {GOAL_MS:g} ms")
            for path in ASKED:
                print(f"{path:28} {answered_ms(url, token, path):7.0f} ms")
        finally:
            processes.stop()


if __name__ == "__main__":
    main()
