"""The story in its order: a fleet and its baseline, a bad change that is named and taken back, a better configuration.

A step ends when the control plane's API shows that it truly happened, or the story fails, naming page and logs.
"""

from agents.demo.beginning import Beginning
from agents.demo.breakage import Breakage
from agents.demo.improvement import Improvement
from agents.demo.scene import Scene, Step


class Story:
    """Run the steps in order with `run`; afterwards `scene.spans` holds before, during, back and after."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.steps: list[Step] = [*Beginning(scene).steps, *Breakage(scene).steps, *Improvement(scene).steps]
        self.current: Step | None = None

    def run(self) -> None:
        """Raises `StepFailed` at the first step that did not happen; `current` is that step."""
        view = self.scene.view
        for place, step in enumerate(self.steps):
            self.current = step
            view.begin(place)
            try:
                step.act()
            except BaseException:
                view.end(failed=True)
                raise
            view.end()
