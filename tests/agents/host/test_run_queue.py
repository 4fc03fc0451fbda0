"""What Linux tells of threads that wait for a processor, seen on real threads that share one."""

import os
import threading

import pytest

from agents.host.run_queue import run_queue


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="this kernel does not tell of its run queues")
def test_threads_that_share_a_core_wait_for_it() -> None:
    def count() -> None:
        os.sched_setaffinity(0, {core})  # This thread's alone.
        sum(range(20_000_000))

    core = min(os.sched_getaffinity(0))
    process = os.fork()  # Two processes, so that Python's lock does not take turns for them.
    if not process:
        count()
        os._exit(0)
    with run_queue() as queue:
        before = queue.waited_s()
        own = os.sched_getaffinity(0)
        try:
            count()
        finally:
            os.sched_setaffinity(0, own)
        os.waitpid(process, 0)
        assert queue.waited_s() - before > 0.01


def test_a_thread_that_has_ended_is_passed_over() -> None:
    going = threading.Event()
    thread = threading.Thread(target=going.wait)
    thread.start()
    with run_queue() as queue:
        first = queue.waited_s()
        going.set()
        thread.join()
        assert queue.waited_s() >= 0 <= first
