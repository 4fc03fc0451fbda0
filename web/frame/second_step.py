"""What a second step asks for before something is ended, on the page of what it ends; components/second_step.html."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ending:
    """`place`: the address that such things stand below; `loses`: what comes of it."""

    place: str
    number: int
    title: str
    loses: str
    button: str

    @property
    def action(self) -> str:
        """Where its form is sent."""
        return f"{self.place}/{self.number}/end"
