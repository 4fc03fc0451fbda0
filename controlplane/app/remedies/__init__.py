"""Remedies of alerts: what is to be done about a cause, who does it, and what was done.

`Remedies` is the hook that the evaluator calls, `try_again` comes back to declined ones; `choose` decides (pure),
`standing` reads, `carry_out` acts. `not_at_rest` says whose studies wait, and what for; `measured_traffic` what a pool
was tuned for.
"""

from controlplane.app.remedies.check import check_remedy
from controlplane.app.remedies.hook import Remedies
from controlplane.app.remedies.measured_traffic import measured_traffic
from controlplane.app.remedies.recovering import not_at_rest
from controlplane.app.remedies.retry_declined import try_again

__all__ = ["Remedies", "check_remedy", "measured_traffic", "not_at_rest", "try_again"]
