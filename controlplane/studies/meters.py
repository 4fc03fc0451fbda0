"""Reports of trials that did not count, by reason."""

import logging

from prometheus_client import CollectorRegistry, Counter

from controlplane.studies.lease_store import Late
from controlplane.studies.trial_lease import Refusal

log = logging.getLogger(__name__)


class LateReports:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """registry: where it is shown; None: nowhere."""
        said = "Reports of trials that were not counted, since their lease did not hold, by reason."
        self._refused = Counter("tailwright_trial_reports_refused", said, ["reason"], registry=registry)
        for reason in Refusal:
            self._refused.labels(reason.value)

    def note(self, late: Late) -> None:
        self._refused.labels(late.why.value).inc()
        log.warning("%s", late.message)
