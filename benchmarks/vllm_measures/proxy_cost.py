"""What the local proxy adds to a request, and what it costs the machine."""

from benchmarks.engine_measures.report import figure, note, skipped
from benchmarks.engine_measures.stats import summarize
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.vllm_measures.interval import change
from benchmarks.vllm_measures.managed_node import CAPACITY, ManagedNode
from benchmarks.vllm_measures.proc_files import cpu_s_of
from benchmarks.vllm_measures.session import Session
from benchmarks.vllm_measures.traffic.clients import Clients, Served, requests
from benchmarks.vllm_measures.traffic.shapes import even


def measure(session: Session, node: ManagedNode) -> None:
    """The same server asked directly and through the proxy, in turn: one client, then more than it runs at once."""
    state = node.proxy()
    if state.target is None:
        skipped("the proxy's cost", "it has no target")
        return
    direct = int(state.target.rpartition(":")[2])
    rounds = session.settings.rounds
    size = 30 if session.settings.quick else 60
    first: dict[int, list[float]] = {direct: [], node.port: []}
    rates: dict[int, list[float]] = {direct: [], node.port: []}
    spent_s, tokens = 0.0, 0
    for number in range(rounds):
        for port in (direct, node.port) if number % 2 else (node.port, direct):
            alone = _served(session, port, f"one:{number}:{port}", 1, size, 4)
            first[port].append(summarize([one["ttft_s"] for one in alone.requests]).median)
            before = cpu_s_of(state.pid)
            many = _served(session, port, f"many:{number}", 2 * CAPACITY["max_num_seqs"], 2 * size, 32)
            rates[port].append(many.tokens / many.wall_s)
            if port == node.port:
                spent_s += cpu_s_of(state.pid) - before
                tokens += many.tokens
    added_ms = [1000 * (through - past) for through, past in zip(first[node.port], first[direct], strict=True)]
    note(
        f"The proxy, the same server asked directly and through it in turn, {rounds} rounds: median time to first "
        f"token of one client's short requests {figure(summarize(added_ms).median)} ms longer "
        f"({figure(min(added_ms))} to {figure(max(added_ms))}), directly "
        f"{figure(1000 * summarize(first[direct]).median)} ms; tokens a second at saturation "
        f"{change(rates[node.port], rates[direct]).told}; its CPU time {figure(1000 * spent_s / max(tokens, 1))} s per "
        "1,000 tokens streamed one by one.\n"
    )


def _served(session: Session, port: int, purpose: str, clients: int, count: int, new_tokens: int) -> Served:
    seed = f"{session.settings.seed}:proxy:{purpose}"
    prompts = requests(session.texts.code(seed), even(seed, count, new_tokens))
    served = Clients(session.nursery, port, prompts, clients=clients, seed=1, total=count).wait()
    if served.failed:
        raise WorkerFailed(f"{len(served.failed)} requests failed at port {port}: {served.failed[0]}")
    return served
