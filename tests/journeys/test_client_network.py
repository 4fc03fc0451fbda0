"""From a client's request to network time in the API: client, engine, agent and control plane, each its own process."""

import statistics

import httpx
import openai

from agents.client_measure import NetworkJoin, NetworkTime, Recorder, wrap_openai
from agents.demo.plan import MODEL, POOL
from controlplane.contract import metrics
from controlplane.contract.bodies.access import Scope, TokenCreate
from tests.conftest import Stack
from tests.processes import wait_for

REQUESTS = 6
TOKENS = 12
SHIPPED = (
    metrics.CLIENT_E2E,
    metrics.CLIENT_TTFT,
    metrics.CLIENT_TPOT,
    metrics.CLIENT_ITL,
    metrics.CLIENT_CONNECT,
    metrics.CLIENT_NETWORK,
    metrics.CLIENT_NETWORK_TTFT,
)


def test_network_time_is_joined_shipped_and_queried(stack: Stack) -> None:
    with stack.client() as admin:
        token = admin.create_token(TokenCreate(name="a-client", scope=Scope.AGENT)).token
        with Recorder("checkout", pool=POOL) as recorder:
            recorder.ship_to(stack.url, token, interval_s=0.2)
            with openai.OpenAI(base_url=f"{stack.engine_url}/v1", api_key="none") as client:
                wrap_openai(client, recorder)
                for number in range(REQUESTS):
                    stream = client.completions.create(
                        model=MODEL, prompt=f"def f{number}(x):", max_tokens=TOKENS, stream=True, temperature=0
                    )
                    assert list(stream)
            joining, found = NetworkJoin(recorder, admin, pool=POOL), list[NetworkTime]()

            def joined() -> bool:
                found.extend(joining.collect())
                return len(found) == REQUESTS

            wait_for("the agent has reported all requests", joined, 60)
        assert {time.node for time in found} == {"node-1"} and joining.given_up == 0
        # On loopback next to nothing; the engine may note its end after the client has seen it.
        assert statistics.median(abs(time.network_s) / time.server_e2e_s for time in found) < 1

        own = recorder.snapshot()
        assert own.requests == own.count(metrics.CLIENT_NETWORK) == REQUESTS and own.dropped == 0
        for metric in SHIPPED:
            (series,) = admin.quantiles(metric.short, window="10m", node="checkout", by=["model", "pool"]).series
            assert (series.count, series.labels) == (own.count(metric), {"model": MODEL, "pool": POOL}), metric.short
            seen = own.quantile(metric, 0.5)
            assert seen is not None and abs(series.quantiles["0.5"] - seen) <= 0.03 * seen, metric.short
        ended = admin.scalars(metrics.CLIENT_REQUESTS.short, window="10m", node="checkout")
        assert sum(series.value for series in ended.series) == REQUESTS
    assert httpx.get(f"{stack.url}/readyz").status_code == 200
