"""A limit on a quantile as an option says it."""

from pydantic import ValidationError

from controlplane.contract.bodies.slo import Limit
from controlplane.terminal.service_connection import explain_values, fail


def parse_limit(text: str, option: str) -> Limit:
    """ "itl:0.99<=0.2" to a limit in seconds. Leaves with status 2 where it is none."""
    try:
        left, limit = text.split("<=")
        metric, q = left.split(":")
        return Limit(metric=metric.strip(), q=float(q), limit_s=float(limit))
    except ValidationError as error:
        fail(f"{option}: {text!r}: {explain_values(error)}")
    except ValueError:
        fail(f"{option}: wants METRIC:QUANTILE<=SECONDS such as itl:0.99<=0.2, got {text!r}")
