"""Titles and texts that a destination's owner writes: Jinja2 with a small vocabulary, so that none of it can do harm.

Guarantees: a template is refused at once, by its field, where it names what an alert has not, or says more than the
vocabulary; what is accepted reads texts alone, loops once over short lists, and has no arithmetic, no calls and no
assignment, so its time is bounded by its length, and its result by `MOST_RESULT`. It runs in Jinja's sandbox besides.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from controlplane.alerts.channels.channel import Notification, Status
from controlplane.alerts.channels.payload import annotations_of, labels_of
from controlplane.alerts.channels.wording import cut, text_of, title_of
from controlplane.contract.bodies.alerts import Alert, AlertState, Diagnosis, Severity
from controlplane.contract.errors import BadRequest

MOST_RESULT = 16_000
MOST_DEPTH = 40
"""Of expressions within each other; Python's own parser takes about twice as many."""
MOST_VALUE, MOST_ITEMS = 4_000, 50
"""Characters of a text that is inserted, and items of a list."""
LISTS = ("causes", "remedies", "updates", "label_lines")
TEXTS: tuple[str, ...] = (
    *("status", "title", "text", "rule", "severity", "summary", "pool", "value", "threshold", "stage", "error_rate"),
    *("started_at", "fired_at", "resolved_at", "fingerprint", "link", "receiver", "by", "alert"),
)
NAMES = (*TEXTS, "labels", *LISTS)
"""What a template may name: texts, "" where an alert has none; `labels`, by name; and lists of texts."""
LOOP = ("index", "first", "last")
SAMPLE_AT = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
SAMPLE_DIAGNOSIS = Diagnosis(stage="prefill", summary="prefill", causes=[{"message": "revision 7 raised max_num_seqs"}])


def _joined(items: Any, between: str = ", ") -> str:
    return str(between)[:100].join(str(item) for item in ([items] if isinstance(items, str) else items))


FILTERS: dict[str, Callable[..., Any]] = {
    "upper": lambda text: str(text).upper(),
    "lower": lambda text: str(text).lower(),
    "capitalize": lambda text: str(text).capitalize(),
    "trim": lambda text: str(text).strip(),
    "truncate": lambda text, most=80: cut(str(text), max(1, int(most))),
    "default": lambda text, instead="": text or instead,
    "join": _joined,
    "length": len,
    "first": lambda items: next(iter(items), ""),
    "last": lambda items: next(iter(list(items)[-1:]), ""),
}
_NODES: tuple[type[nodes.Node], ...] = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Getattr, nodes.Getitem, nodes.Const),
    *(nodes.Filter, nodes.If, nodes.For, nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.And, nodes.Or),
    *(nodes.Not, nodes.Concat),
)


def _environment(escape: Callable[[str], str]) -> ImmutableSandboxedEnvironment:
    made = ImmutableSandboxedEnvironment(
        finalize=lambda value: escape(cut(str(value), MOST_VALUE)), keep_trailing_newline=True
    )
    made.filters, made.tests, made.globals = dict(FILTERS), {}, {}
    return made


def check(template: str, field: str) -> None:
    """Raises `BadRequest` that names the field, the line, and the nearest name that there is."""
    try:
        tree = _environment(str).parse(template)
    except TemplateSyntaxError as error:
        raise BadRequest(f"{field}: line {error.lineno}: {error.message}", field=field) from None
    except (RecursionError, ValueError, OverflowError):
        raise BadRequest(f"{field}: nests too deeply, or has too large a number", field=field) from None
    if _depth(tree) > MOST_DEPTH:
        raise BadRequest(f"{field}: nests too deeply", field=field)
    for node in _walk(tree):
        _check_node(node, field)
    _check_names(tree, frozenset(), field)
    for status in Status:
        try:
            rendered(template, sample(status), str)
        except (TemplateError, TypeError, ValueError, SyntaxError, ArithmeticError) as error:
            raise BadRequest(f"{field}: cannot be rendered: {error}", field=field) from None


def _depth(tree: nodes.Node) -> int:
    """Without recursion: what is too deep to be compiled is told before anything walks it."""
    level, found = [tree], 0
    while level:
        level, found = [child for node in level for child in node.iter_child_nodes()], found + 1
    return found


def _walk(node: nodes.Node) -> Iterator[nodes.Node]:
    yield node
    for child in node.iter_child_nodes():
        yield from _walk(child)


def _check_node(node: nodes.Node, field: str) -> None:
    where = f"{field}: line {node.lineno}"
    if not isinstance(node, _NODES):
        raise BadRequest(f"{where}: a template has no {type(node).__name__.lower()}", field=field)
    if isinstance(node, nodes.Filter) and node.name not in FILTERS:
        raise BadRequest(f"{where}: no filter {node.name!r}{_nearest(node.name, FILTERS)}", field=field)
    if isinstance(node, nodes.For):
        plain = isinstance(node.target, nodes.Name) and isinstance(node.iter, nodes.Name) and node.iter.name in LISTS
        if not plain or node.recursive or any(isinstance(one, nodes.For) for one in _walk_body(node)):
            raise BadRequest(f"{where}: for goes over {', '.join(LISTS)}, and holds no other", field=field)


def _walk_body(loop: nodes.For) -> Iterator[nodes.Node]:
    for part in (*loop.body, *loop.else_):
        yield from _walk(part)


def _check_names(node: nodes.Node, bound: frozenset[str], field: str) -> None:
    """bound: what a loop around has named."""
    where = f"{field}: line {node.lineno}"
    if isinstance(node, nodes.For):
        assert isinstance(node.target, nodes.Name)
        inside = bound | {node.target.name, "loop"}
        _check_names(node.iter, bound, field)
        for part in (*node.body, *node.else_, *([node.test] if node.test else [])):
            _check_names(part, inside, field)
        return
    if isinstance(node, nodes.Name) and node.name not in (*NAMES, *bound):
        offered = (*NAMES, *bound)
        raise BadRequest(f"{where}: an alert has no {node.name!r}{_nearest(node.name, offered)}", field=field)
    if isinstance(node, nodes.Getattr | nodes.Getitem):
        _check_member(node, bound, where, field)
    for child in node.iter_child_nodes():
        _check_names(child, bound, field)


def _check_member(node: nodes.Getattr | nodes.Getitem, bound: frozenset[str], where: str, field: str) -> None:
    of = node.node.name if isinstance(node.node, nodes.Name) else ""
    key: object = node.attr if isinstance(node, nodes.Getattr) else None
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        key = node.arg.value
    if of == "labels" and isinstance(key, str):
        return
    if of == "loop" and "loop" in bound:
        if key in LOOP:
            return
        raise BadRequest(f"{where}: loop has no {key!r}; it has {', '.join(LOOP)}", field=field)
    raise BadRequest(f"{where}: only labels have members, as in labels.pool or labels['pool']", field=field)


def _nearest(name: str, offered: Any) -> str:
    near = get_close_matches(name, list(offered), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(offered)}"


def rendered(template: str, notification: Notification, escape: Callable[[str], str]) -> str:
    """What it says of a notification; what an alert says is escaped. Raises for a template that `check` refuses."""
    found = ""
    for piece in _environment(escape).from_string(template).generate(**context_of(notification)):
        found += piece
        if len(found) > MOST_RESULT:
            break
    return cut(found, MOST_RESULT)


class _Labels(dict[str, str]):
    """A label that an alert has not is empty: not every alert has a node."""

    def __missing__(self, name: str) -> str:
        return ""


def context_of(notification: Notification) -> Mapping[str, Any]:
    """What a template may name, of this notification."""
    alert, labels = notification.alert, labels_of(notification.alert)
    annotations = annotations_of(alert)
    texts = {name: annotations.get(name, "") for name in ("value", "threshold", "stage", "error_rate")}
    moments = {"started_at": alert.started_at, "fired_at": alert.fired_at, "resolved_at": alert.resolved_at}
    causes = [] if alert.diagnosis is None else [str(cause.get("message", "")) for cause in alert.diagnosis.causes]
    return {
        **texts,
        **{name: "" if at is None else at.isoformat(timespec="seconds") for name, at in moments.items()},
        "status": notification.status.value,
        "title": title_of(notification),
        "text": text_of(notification),
        "rule": alert.rule,
        "severity": alert.severity.value,
        "summary": alert.summary,
        "pool": labels.get("pool", ""),
        "fingerprint": alert.fingerprint,
        "link": notification.link,
        "receiver": notification.receiver,
        "by": notification.by or "",
        "alert": str(alert.id),
        "labels": _Labels(labels),
        "causes": causes[:MOST_ITEMS],
        "remedies": [f"{step.title}: {step.why}" for step in alert.remedies][:MOST_ITEMS],
        "updates": [update.summary for update in alert.updates][-MOST_ITEMS:],
        "label_lines": [f"{name}={value}" for name, value in sorted(labels.items())][:MOST_ITEMS],
    }


def sample(status: Status) -> Notification:
    """What a template is tried on where no alert is named."""
    at = SAMPLE_AT
    over = status is Status.RESOLVED
    alert = Alert(
        id=0,
        fingerprint="0123456789abcdef",
        rule_id=1,
        rule="Latency regression",
        state=AlertState.RESOLVED if over else AlertState.FIRING,
        severity=Severity.PAGE,
        labels={"pool": "chat", "metric": "ttft"},
        summary="TTFT p99 rose from 210 ms to 1.9 s",
        started_at=at,
        fired_at=at,
        resolved_at=at if over else None,
        value=1.9,
        threshold=0.21,
        diagnosis=SAMPLE_DIAGNOSIS,
    )
    by = "Ada" if status is Status.ACKNOWLEDGED else None
    return Notification(alert, status, "on-call", "https://tailwright.example", at, by=by)
