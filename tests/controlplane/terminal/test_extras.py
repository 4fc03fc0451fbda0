"""Parts are imported once, with the collector of reference cycles at rest; whatever happens, it works on afterwards."""

import subprocess
import sys

import pytest

PROGRAM = """
import gc, sys
from controlplane.terminal import extras

walked = []
gc.callbacks.append(lambda phase, _: walked.append(phase))
part = extras.load("controlplane.telemetry.question")
assert walked == [] and len(sys.modules) > 100, walked
assert gc.isenabled() and gc.get_freeze_count() > 10_000, gc.get_freeze_count()
frozen = gc.get_freeze_count()
kept = [[] for _ in range(10_000)]
assert extras.load("controlplane.telemetry.question") is part
assert gc.get_freeze_count() == frozen, "what is loaded already freezes nothing"
assert "start" in walked, "the collector works again"

gc.disable()
with extras.loading():
    pass
assert not gc.isenabled() and gc.get_freeze_count() == frozen, "who has switched it off finds it off"
gc.enable()
try:
    extras.load("controlplane.nobody_has_this_part")
except ModuleNotFoundError:
    assert gc.isenabled()
else:
    raise AssertionError("it was found")
"""


def test_a_part_is_loaded_with_the_collector_at_rest_and_once() -> None:
    """In a process of its own: the collector is all of a process's."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_service_on_sqlite_loads_nothing_of_postgresql() -> None:
    probe = "import sys, controlplane.app.serve; sys.exit('psycopg' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
