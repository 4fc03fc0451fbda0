"""How many requests each value of each label has, so that a filter can be chosen (pure)."""

import numpy as np

from controlplane.contract.bodies.request_log import Facet, FacetValue, RequestFacets
from controlplane.telemetry.request_log.request_columns import RequestColumns
from controlplane.telemetry.request_log.request_filter import RequestFilter
from controlplane.telemetry.values.timespan import Span

SHOWN = 50
"""Values of a label, those with the most requests."""


def facets(found: RequestColumns, span: Span, wanted: RequestFilter) -> RequestFacets:
    """Counts under all filters but the label's own: the other values of a label that is filtered by stay choosable."""
    return RequestFacets(
        start=span.start,
        end=span.end,
        found=found.found,
        looked_at=len(found),
        matching=int(found.fitting(wanted).sum()),
        facets=[_facet(found, wanted, label) for label in found.labels],
    )


def _facet(found: RequestColumns, wanted: RequestFilter, label: str) -> Facet:
    coded = found.labels[label]
    counts = np.bincount(coded.codes[found.fitting(wanted, but=label)], minlength=len(coded.names))
    by_count = sorted((place for place in range(len(counts)) if counts[place]), key=lambda one: -counts[one])
    shown, others = by_count[:SHOWN], by_count[SHOWN:]
    return Facet(
        label=label,
        values=[FacetValue(value=coded.names[place], requests=int(counts[place])) for place in shown],
        others=len(others),
        others_requests=int(sum(counts[place] for place in others)),
    )
