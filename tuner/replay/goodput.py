"""Which requests of a replay were good: answered, within every limit. Pure.

As goodput is counted by DistServe (OSDI 2024, section 2) and by vLLM's `bench serve --goodput`: by each request's own
values.
"""

from collections.abc import Sequence

import numpy as np

from controlplane.contract.bodies.slo import Limit
from tuner.replay.completion import RequestTiming


def is_good(timing: RequestTiming, limits: Sequence[Limit]) -> bool:
    """A metric with several values a request, `itl`, is held to a limit by their quantile; one without any by nothing.
    A request that the replay's deadline has cut off was not answered."""
    if timing.error or timing.cut:
        return False
    values = timing.samples()
    return all(float(np.quantile(own, one.q)) <= one.limit_s for one in limits if (own := values.get(one.metric)))
