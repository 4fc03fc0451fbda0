"""Several objectives at once: which points are beaten, how much a front covers, what a trial may add to it. Pure.

Guarantee: exact, without draws: the expected hypervolume improvement of independent normal beliefs is a sum over the
boxes that no point beats of products of one-dimensional expected improvements (Emmerich, Deutz and Klinkenberg 2011;
Yang et al. 2019). With one objective it is the expected improvement. Every objective is to be less.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuner.search.surrogate import Array, Posterior


def beaten(points: Array) -> NDArray[np.bool_]:
    """Whether another of these points (points x objectives) is no worse in any objective and better in one."""
    no_worse = (points[:, None] <= points[None]).all(axis=2)
    better = (points[:, None] < points[None]).any(axis=2)
    found: NDArray[np.bool_] = np.any(no_worse & better, axis=0)
    return found


def hypervolume(points: Array, reference: Array) -> float:
    """How much of the space below `reference` is beaten by these points (points x objectives)."""
    edges, taken = _boxes(points, reference)
    covered = taken.astype(float)
    for own in reversed(edges):
        widths = np.diff(own)
        widths[0] = 0.0  # From minus infinity on nothing is beaten.
        covered = covered @ widths
    return float(covered)


def expected_gain(beliefs: Sequence[Posterior], points: Array, reference: Array) -> Array:
    """By how much each configuration is expected to add to what `points` cover below `reference`. `beliefs`: one an
    objective, about the same configurations."""
    edges, taken = _boxes(points, reference)
    found: Array = (~taken).astype(float)[None]
    for belief, own in zip(beliefs, edges, strict=True):
        below = np.stack([np.zeros(len(belief.mean)), *(belief.improvement(float(edge)) for edge in own[1:])], axis=1)
        widths = np.diff(below, axis=1)
        found = np.einsum("na,na...->n...", widths, np.broadcast_to(found, (len(widths), *found.shape[1:])))
    return found


def _boxes(points: Array, reference: Array) -> tuple[list[Array], NDArray[np.bool_]]:
    """Edges by objective, from minus infinity to `reference`, and which of the boxes between them a point beats."""
    inside = points[(points < reference).all(axis=1)]
    edges = [
        np.concatenate([[-np.inf], np.unique(inside[:, place]), [edge]])
        for place, edge in enumerate(reference.tolist())
    ]
    taken = np.zeros([len(own) - 1 for own in edges], dtype=bool)
    for point in inside:
        beats = [own[:-1] >= value for own, value in zip(edges, point, strict=True)]
        taken[np.ix_(*beats)] = True
    return edges, taken
