"""A rule tried over the past: when it would have fired, before anybody is woken by it."""

from controlplane.client import Client
from controlplane.contract.errors import NotFound
from web.frame.page import Context, Page, number
from web.frame.selection import Selection
from web.frame.time_range import duration

USUAL = "1d"
SPANS = ("1h", "8h", "1d", "2d", "7d")


def whole(client: Client, selection: Selection) -> Context:
    """Raises `NotFound` for a rule that there is not, `BadRequest` for one that cannot be tried."""
    wanted = number(selection, "rule")
    rule = next((one for one in client.alert_rules() if one.id == wanted), None)
    if rule is None:
        raise NotFound(f"no alert rule {wanted}", field="rule")
    over = selection.own.get("over", USUAL)
    body = rule.model_dump(mode="json", exclude={"id", "created_at"})
    found = client.dry_run_rule({"rule": body, "window_s": duration(over, "over").total_seconds()})
    return {"rule": rule, "trial": found, "over": over, "spans": SPANS}


PAGE = Page("trial", "/alert-rules/{rule}/trial", "Would have fired", section="alerts", bar=False, whole=whole)
