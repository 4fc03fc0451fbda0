"""Our engine's worker process; see `our_engines.py` for what it can be asked."""

from benchmarks.engine_rivals import our_attention, our_engines, our_overhead, our_quality, our_replay, protocol

if __name__ == "__main__":
    protocol.answer_requests(
        {
            **our_engines.HANDLERS,
            **our_attention.HANDLERS,
            **our_replay.HANDLERS,
            **our_quality.HANDLERS,
            **our_overhead.HANDLERS,
        }
    )
