"""A few configurations that stand for a whole space, for who can forecast only so many. Pure."""

import math
from collections.abc import Mapping
from typing import Any

from scipy import stats

from controlplane.contract.knobs import QUANTIZATION, canonical_json
from tuner.search.space import Space

_DRAWN = 8
"""Points drawn for each that is wanted: many are no configuration of their own, or not known to run."""


def well_spread(space: Space, default: Mapping[str, Any], most: int) -> list[dict[str, Any]]:
    """Up to `most` besides the default, in its weight format: each value of a knob about as often as any other (a Sobol
    sequence). The first of them are well spread, too."""
    names = [name for name in space.values if name != QUANTIZATION]
    if not names:
        return []
    seen, found = {canonical_json(space.complete(space.chosen(default)))}, list[dict[str, Any]]()
    for point in stats.qmc.Sobol(len(names), scramble=True, rng=1).random_base2(math.ceil(math.log2(_DRAWN * most))):
        drawn = {
            name: space.values[name][int(share * len(space.values[name]))]
            for name, share in zip(names, point, strict=True)
        }
        knobs = space.complete(space.chosen(dict(default)) | drawn)
        if canonical_json(knobs) not in seen and not space.infeasible(knobs) and len(found) < most:
            seen.add(canonical_json(knobs))
            found.append(knobs)
    return found
