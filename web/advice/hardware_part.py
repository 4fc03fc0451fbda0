"""A pool's model on other accelerators, as the API forecasts it: of each the width that takes least, or one in full."""

import shlex
from collections.abc import Sequence

from controlplane.client import Client
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.hardware_forecast import ACCELERATOR_NAMES, HardwareCreate, HardwareRow
from controlplane.contract.planning.whatif import ForecastClass
from web.frame.page import Context
from web.frame.selection import Selection

WEEK_S, MINUTE_S = 7 * 86_400.0, 60.0


def accelerator_of(selection: Selection) -> str:
    """The one that was chosen; empty: all. Raises `BadRequest` for what is not known."""
    said = selection.own.get("accelerator", "")
    if said and said not in ACCELERATOR_NAMES:
        raise BadRequest(f"accelerator: wants one of {', '.join(ACCELERATOR_NAMES)}", field="accelerator")
    return said


def hardware(client: Client, selection: Selection) -> Context:
    """Of the bar's pool, by as much of its newest traffic as the bar's time is long; why there is none, in words."""
    if not selection.pool:
        return {"pool": None}
    chosen = accelerator_of(selection)
    context: Context = {
        "pool": selection.pool,
        "names": ACCELERATOR_NAMES,
        "chosen": chosen,
        "command": f"tailwright hardware --pool {shlex.quote(selection.pool)}",
        "command_with_model": f"tailwright hardware --model DIR --pool {shlex.quote(selection.pool)}",
    }
    start, end = selection.range.at(selection.now)
    asked = HardwareCreate(
        pool=selection.pool,
        window_s=min(max((end - start).total_seconds(), MINUTE_S), WEEK_S),
        accelerators=[chosen] if chosen else [],
    )
    try:
        found = client.hardware(asked)
    except BadRequest as error:
        return context | {"why_not": error.message, "no_model": error.detail.get("field") == "model"}
    rows = found.items if chosen else least(found.items)
    return context | {"found": found, "rows": rows, "extrapolated": ForecastClass.EXTRAPOLATED}


def least(rows: Sequence[HardwareRow]) -> list[HardwareRow]:
    """Of each accelerator the width with the fewest accelerator seconds a token; of one that carries nothing the
    widest."""
    by_name: dict[str, HardwareRow] = {}
    for row in rows:
        best = by_name.get(row.accelerator)
        if best is None or best.device_s_per_1000 is None or _is_less(row, best.device_s_per_1000):
            by_name[row.accelerator] = row
    return list(by_name.values())


def _is_less(row: HardwareRow, than: float) -> bool:
    return row.device_s_per_1000 is not None and row.device_s_per_1000 < than
