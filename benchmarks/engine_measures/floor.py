"""The share of the memory-bandwidth floor: how near a decode step is to the time that reading the weights takes."""

from benchmarks.engine_measures.report import figure, heading, note, progress, spread, table
from benchmarks.engine_measures.session import MAIN, Session
from benchmarks.engine_measures.stats import summarize

_MEGABYTES = 512
_READS = 4
_NEW_TOKENS = 32


def measure(session: Session) -> None:
    heading("Share of the memory-bandwidth floor, batch 1")
    assert session.ours is not None
    size: int = session.ours.ask("weight_bytes", name=MAIN)
    note(
        f"In each of {session.rounds} rounds the bandwidth is measured beside the decoding: the fastest of {_READS} "
        f"sums over {_MEGABYTES} MiB with the same threads. Floor: {size / 2**20:.0f} MiB of weights a token (the head "
        "included) over that bandwidth. A share above 1 means that the weights stay in the caches."
    )
    pieces = session.texts.code("floor")
    session.our_decode(MAIN, [pieces.take(128)], 8)
    bandwidths, rates, shares = [], [], []
    for _ in range(session.rounds):
        bandwidth = max(session.ours.ask("read_bandwidth", megabytes=_MEGABYTES, repeats=_READS))
        found = session.our_decode(MAIN, [pieces.take(128)], _NEW_TOKENS)
        rate = found["decode_tokens"] / found["decode_s"]
        bandwidths.append(bandwidth / 1e9)
        rates.append(rate)
        shares.append(rate * size / bandwidth)
    progress(f"floor: {figure(summarize(shares).median)}")
    table(
        ["bandwidth, GB/s", "floor, tokens/s", "reached, tokens/s", "share"],
        [
            [
                spread(summarize(bandwidths)),
                figure(summarize(bandwidths).median * 1e9 / size),
                spread(summarize(rates)),
                f"**{summarize(shares).median:.2f}** (min {min(shares):.2f}, max {max(shares):.2f})",
            ]
        ],
    )
