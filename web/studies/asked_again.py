"""The command that asks for the same study again. Pure.

Guarantee: what it sends is the whole of what was asked for, defaults of that time written out; whatever is in it, a
POSIX shell takes it as it stands.
"""

import json

from controlplane.contract.bodies.studies import StudyCreate

END = "STUDY"
"""Ends the document (POSIX, XCU 2.7.4, "here-document"); no line of JSON is this word."""


def asked_again(spec: StudyCreate) -> str:
    ranges = {name: one.model_dump(mode="json", exclude_none=True) for name, one in spec.space.items()}
    document = json.dumps(spec.model_dump(mode="json") | {"space": ranges}, indent=2)
    return f"tailwright studies start --file - <<'{END}'\n{document}\n{END}"
