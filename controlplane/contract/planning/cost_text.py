"""What output tokens cost, as people read it: the same words on a page, in a terminal and in a verdict. Pure."""

from controlplane.contract.bodies.studies import (
    Costs,
    StudyCreate,
    TokenCost,
)
from controlplane.contract.duration_text import duration_text
from controlplane.contract.planning.measurement import TOKENS_COSTED

MILLION = 1_000_000
HOUR_S = 3_600


def cost_text(found: TokenCost, study: StudyCreate) -> str:
    """ "6.20 s of a node for 1,000 output tokens (5.50 s to 7.10 s), 3.44 EUR for a million (3.06 to 3.94)"."""
    to = "or more" if found.high_s is None else f"to {duration_text(found.high_s)}"
    low = duration_text(found.low_s) if found.low_s else "0"
    told = f"{duration_text(found.node_s)} of a node for {TOKENS_COSTED:,} output tokens ({low} {to})"
    if study.node_hour_price is None:
        return told
    price = study.node_hour_price / HOUR_S * MILLION / TOKENS_COSTED
    to = "or more" if found.high_s is None else f"to {money(found.high_s * price)}"
    whole = f"{money(found.node_s * price)} {study.currency} for a million ({money(found.low_s * price)} {to})"
    return f"{told}, {whole}"


def saving_text(found: Costs, study: StudyCreate) -> str:
    """ "7.20 node hours a day less (5.10 to 9.30), 14.40 EUR (10.20 to 18.60), at 12.3 million output tokens a day";
    empty where nothing is known of it."""
    if found.saved_node_h is None or found.saved_interval is None or found.tokens_per_day is None:
        return ""
    low, high = found.saved_interval
    told = f"{found.saved_node_h:.3g} node hours a day less ({low:.3g} to {high:.3g})"
    if study.node_hour_price is not None:
        saved, *ends = (money(hours * study.node_hour_price) for hours in (found.saved_node_h, low, high))
        told += f", {saved} {study.currency} ({' to '.join(ends)})"
    return f"{told}, at {found.tokens_per_day / MILLION:.3g} million output tokens a day"


def costs_text(found: Costs, study: StudyCreate) -> str:
    """Of the winner, beside the default, and what it saves."""
    default = f"the default {'costs ' if found.winner is None else ''}{cost_text(found.default, study)}"
    if found.winner is None:
        return default
    saving = saving_text(found, study)
    return f"it costs {cost_text(found.winner, study)}, {default}{saving and '; ' + saving}"


def money(amount: float) -> str:
    """With cents, or three digits of what is less: "14.40", "0.00123"."""
    return f"{amount:,.2f}" if abs(amount) >= 1 or not amount else f"{amount:.3g}"
