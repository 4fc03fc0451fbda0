"""Checks of what a person may write in a route: each error names its field and the mend."""

from controlplane.contract.errors import BadRequest
from controlplane.contract.on_call.incidents import RouteCreate


def check_route(wanted: RouteCreate) -> None:
    twice = sorted({name for name in wanted.group_by if wanted.group_by.count(name) > 1})
    if twice:
        raise BadRequest(f"group_by: {twice[0]!r} is given twice", field="group_by")
    if any(not name for name in (*wanted.group_by, *wanted.matchers)):
        field = "group_by" if "" in wanted.group_by else "matchers"
        raise BadRequest(f"{field}: a label has a name, as in pool", field=field)
