"""vLLM that serves HTTPS alone: who asks it believes the CA that was named, no other, and asks nobody in clear."""

import asyncio
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from agents.agent.agent import Agent
from agents.agent.settings import AgentSettings
from agents.backends.base import EngineUnreachable
from agents.backends.embedded_backend import EmbeddedBackend
from agents.backends.engine_control import EngineControl
from agents.backends.vllm.managed import server_process
from controlplane.contract.errors import BadSettings, Unavailable
from controlplane.contract.knobs import EngineConfig
from controlplane.serving.authority import Authority
from controlplane.serving.tls import client_context
from tests.agents.backends.vllm.conftest import StandInServer
from tests.agents.backends.vllm.managed.managed_node import NODE, Clients, Node, running, until
from tuner.replay.http_stream import Answer, Target
from tuner.search.logprob_drop import passage_logprobs
from tuner.search.quality_gate import next_tokens
from tuner.traffic.targets import models_at
from tuner.workload.corpus import engine_tokenizer

SECURED = 'tls_cert = "{folder}/vllm.pem"\ntls_key = "{folder}/vllm.key"\nserver_ca_file = "{folder}/ca.pem"\n' + NODE


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The fleet's, as `tailwright tls init` makes it; "stranger.pem" beside it is another's."""
    made, other = (Authority(tmp_path_factory.mktemp(name)) for name in ("tls", "other"))
    now = datetime.now(UTC)
    for one in (made, other):
        one.init(now)
    made.issue_server("vllm", ["127.0.0.1"], now)
    (made.folder / "stranger.pem").write_bytes((other.folder / "ca.pem").read_bytes())
    return made


@pytest.fixture
def vllm(authority: Authority, tmp_path: Path) -> Iterator[StandInServer]:
    """A running server, attached to by the test."""
    (tmp_path / "shared").mkdir()
    made = StandInServer(tmp_path / "stand-in.log", tmp_path / "shared")
    made.start_secured(authority.folder / "vllm.pem", authority.folder / "vllm.key", authority.folder / "ca.pem")
    yield made
    made.kill()


def agent(vllm: StandInServer, folder: Path, **settings: object) -> Agent:
    told = {"node": "n", "backend": "vllm", "vllm_dir": vllm.folder, "engine_url": vllm.url, "state_dir": folder}
    return Agent(AgentSettings.model_validate({**told, **settings}))


@pytest.mark.parametrize("setting", ["engine_ca_file", "ca_file"])
def test_an_agent_reads_and_changes_a_server_of_the_named_ca(
    vllm: StandInServer, authority: Authority, tmp_path: Path, setting: str
) -> None:
    async def run() -> None:
        backend = agent(vllm, tmp_path / "state", **{setting: authority.folder / "ca.pem"})._backend
        assert backend.url.startswith("https://")
        assert (await backend.health()).healthy
        assert (await backend.effective()).knobs["max_num_seqs"] == 16
        changed = await backend.apply(EngineConfig(max_num_batched_tokens=512, max_num_seqs=4), 3)
        assert (changed.revision, changed.knobs["max_num_seqs"]) == (3, 4)
        await backend.close()

    asyncio.run(run())


def test_another_cas_server_is_not_believed_and_the_setting_is_named(
    vllm: StandInServer, authority: Authority, tmp_path: Path
) -> None:
    """Also where the CA of the control plane, `ca_file`, is the right one: the engine's own goes before it."""

    async def run() -> None:
        stranger, fleet = authority.folder / "stranger.pem", authority.folder / "ca.pem"
        backend = agent(vllm, tmp_path / "state", engine_ca_file=stranger, ca_file=fleet)._backend
        health = await backend.health()
        assert not health.healthy
        assert "CERTIFICATE_VERIFY_FAILED" in health.detail and "engine_ca_file" in health.detail
        with pytest.raises(EngineUnreachable, match="engine_ca_file"):
            await backend.reset_cache()
        await backend.close()
        public = agent(vllm, tmp_path / "state")._backend
        assert "engine_ca_file" in (await public.health()).detail
        await public.close()
        own = EmbeddedBackend(
            vllm.url, EngineControl.at(vllm.url, token_file), tls=client_context(stranger, field="engine_ca_file")
        )
        assert "engine_ca_file" in (await own.health()).detail
        with pytest.raises(EngineUnreachable, match="engine_ca_file"):
            await own.effective()
        await own.close()

    token_file = tmp_path / "token"
    token_file.write_text("secret")
    asyncio.run(run())


def test_a_file_without_an_authority_is_refused_by_the_name_of_its_setting(vllm: StandInServer, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    with pytest.raises(BadSettings, match=r"^engine_ca_file: "):
        agent(vllm, tmp_path / "state", engine_ca_file=empty)


def test_the_tuner_asks_and_replays_by_the_named_ca_alone(
    vllm: StandInServer, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def replayed() -> Answer:
        target, answer = Target(vllm.url), Answer()
        await target.post(b'{"model": "m", "prompt": [1, 2], "max_tokens": 2}', answer)
        target.close()
        return answer

    monkeypatch.setenv("SSL_CERT_FILE", str(authority.folder / "ca.pem"))
    assert models_at(vllm.url, None) == ["m"]
    assert (answer := asyncio.run(replayed())).status == 200, answer.error
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.folder / "stranger.pem"))
    with pytest.raises(Unavailable, match=r"CERTIFICATE_VERIFY_FAILED.*SSL_CERT_FILE"):
        models_at(vllm.url, None)
    for ask in (
        lambda: engine_tokenizer(vllm.url)("x"),
        lambda: next_tokens(vllm.url, "m", [[1]]),
        lambda: passage_logprobs(vllm.url, "m", [[1, 2]]),
    ):
        with pytest.raises(Unavailable, match=r"CERTIFICATE_VERIFY_FAILED.*SSL_CERT_FILE"):
            ask()
    refused = asyncio.run(replayed())
    assert refused.status == 0 and "SSL_CERT_FILE" in refused.error


def node(folder: Path, authority: Authority) -> Node:
    return Node(folder, SECURED.replace("{folder}", str(authority.folder)))


@pytest.mark.slow
def test_a_managed_server_is_started_watched_changed_and_served_from_by_tls(
    tmp_path: Path, authority: Authority
) -> None:
    managed = node(tmp_path, authority)
    trusted = client_context(authority.folder / "ca.pem")

    async def run() -> None:
        backend = managed.backend()
        async with running(backend):
            first = managed.living()[0]
            assert (await managed.proxy.state()).target == f"https://127.0.0.1:{first.port}"
            assert in_clear_gets_nothing(first.port)
            with Clients(f"https://127.0.0.1:{managed.port}", verify=trusted) as clients:
                await clients.some_more()
                await backend.apply(EngineConfig(max_num_batched_tokens=128, max_num_seqs=4), 1)  # Live.
                await clients.some_more()
                changed = await backend.apply(  # Through a standby, which has to be a server of the CA as well.
                    EngineConfig(max_num_batched_tokens=128, max_num_seqs=32), 2
                )
                await clients.some_more()
            assert clients.failed == []
            assert (changed.revision, changed.knobs["max_num_seqs"]) == (2, 32)
            second = (await managed.proxy.state()).target
            assert second is not None and second.startswith("https://") and not second.endswith(f":{first.port}")
        # The next agent takes over what it left, by the same certificate.
        async with running(managed.backend()) as adopted:
            assert (await adopted.effective()).revision == 2

    try:
        asyncio.run(run())
    finally:
        managed.clear()


@pytest.mark.slow
def test_a_server_of_a_ca_that_the_node_file_names_no_more_is_ended_and_not_believed(
    tmp_path: Path, authority: Authority
) -> None:
    managed = node(tmp_path, authority)

    async def run() -> None:
        async with running(managed.backend()):
            before = managed.living()[0]
        managed.file.write_text(managed.file.read_text().replace("/ca.pem", "/stranger.pem"))
        backend = managed.backend()
        work = asyncio.create_task(backend.run())
        await until(lambda: not server_process.is_alive(before))
        # Started anew, with the same certificate, it is not taken for healthy.
        started = await until(managed.living)
        trusted = client_context(authority.folder / "ca.pem")
        url = f"https://127.0.0.1:{started[0].port}"
        await until(lambda: answers(url, trusted))
        server = backend._servers.active
        assert server is not None
        assert "server_ca_file" in (await server.health()).detail
        assert not (await backend.health()).healthy
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await backend.close()

    try:
        asyncio.run(run())
    finally:
        managed.clear()


def answers(url: str, trusted: ssl.SSLContext) -> bool:
    try:
        return httpx.get(f"{url}/health", trust_env=False, verify=trusted).status_code == 200
    except httpx.TransportError:
        return False


def in_clear_gets_nothing(port: int) -> bool:
    try:
        httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False)
    except httpx.TransportError:
        return True
    return False
