"""The stable identity of an alert: the same rule and labels always give the same fingerprint."""

import hashlib
import json
from collections.abc import Mapping


def fingerprint(rule_id: int, labels: Mapping[str, str]) -> str:
    """16 hexadecimal digits of the SHA-256 of the rule's id and the labels, whatever their order."""
    text = json.dumps([rule_id, sorted(labels.items())], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
