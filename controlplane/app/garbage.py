"""How the service runs Python's collector of reference cycles.

A full collection walks every object that may refer to another, while nothing else of the process runs: a quarter of a
second when thousands of nodes report. With the interpreter's thresholds one came every few seconds and found next to
nothing, for nearly all that ends here ends with its last reference.

Guarantee: cycles are still collected, those that die young within seconds; what the modules themselves consist of is
walked never again.
"""

import gc

YOUNG, MIDDLE, FULL = 10_000, 10, 100
"""A collection of the youngest after so many more objects, of the middle ones after so many of the youngest, and a full
one after so many of the middle ones, when there is a quarter more than at the last: every few minutes under full load.
"""


def settle() -> None:
    """Call when everything is imported, in a process that is the service and nothing else."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, FULL)
