"""The usual words for an alert, where a destination has no template: a title, and a text of short lines. Pure."""

from controlplane.alerts.channels.channel import Notification, Status
from controlplane.alerts.channels.payload import annotations_of

LINES = {"value": "Value", "threshold": "Limit or baseline", "stage": "Stage", "causes": "Causes", "update": "Changed"}
LINES |= {"remedy": "Remedy", "error_rate": "Error rate"}
WORDS = {Status.FIRING: "Firing", Status.ACKNOWLEDGED: "Acknowledged", Status.RESOLVED: "Resolved"}


def title_of(notification: Notification) -> str:
    """In one line: what of which rule, where."""
    if notification.title is not None:
        return one_line(notification.title)
    alert = notification.alert
    where = alert.labels.get("pool")
    return one_line(f"{WORDS[notification.status]}: {alert.rule}" + (f" ({where})" if where else ""))


def text_of(notification: Notification) -> str:
    """What is wrong, the figures, stage, causes and remedy: a line each."""
    if notification.text is not None:
        return notification.text
    found = annotations_of(notification.alert)
    lines = [notification.alert.summary]
    lines += [f"{words}: {found[name]}" for name, words in LINES.items() if name in found]
    if notification.by:
        lines.append(f"Acknowledged by {notification.by}")
    return "\n".join(lines)


def one_line(text: str) -> str:
    """Without line ends and what else is no printable character: nothing a title says begins another header."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def cut(text: str, most: int) -> str:
    """At most `most` characters, the last of them an ellipsis where something is missing."""
    return text if len(text) <= most else text[: most - 1] + "…"


def cut_bytes(text: str, most: int) -> str:
    """As `cut`, in bytes of UTF-8."""
    data = text.encode()
    return text if len(data) <= most else data[: most - 3].decode(errors="ignore") + "…"
