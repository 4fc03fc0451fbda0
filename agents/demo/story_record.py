"""What the demo writes down of its story: `story.json` in its data folder, for benchmarks and for later."""

import json
from pathlib import Path
from typing import Any

from agents.demo.scene import Scene
from agents.demo.view import Line

NAME = "story.json"


def record(scene: Scene, lines: list[Line], took_s: float, peak_bytes: int, failure: str) -> dict[str, Any]:
    """Steps with their state and seconds, the spans with their quantiles (seconds), and what failed, if anything."""
    back_s = None
    if scene.told_at is not None and scene.back_at is not None:
        back_s = (scene.back_at - scene.told_at).total_seconds()
    return {
        "took_s": took_s,
        "peak_bytes": peak_bytes,
        "failure": failure,
        "back_s": back_s,  # From the alert that named the change until p99 was back.
        "steps": [{"title": line.title, "state": line.state, "took_s": line.took, "news": line.news} for line in lines],
        "spans": [
            {
                "name": span.name,
                "start": span.start.isoformat(),
                "end": span.end.isoformat(),
                "requests": span.requests,
                "knobs": scene.knobs.get(span.name, ""),
                "quantiles": span.quantiles,
            }
            for span in scene.spans
        ],
    }


def write(folder: Path, told: dict[str, Any]) -> None:
    (folder / NAME).write_text(json.dumps(told, indent=1))
