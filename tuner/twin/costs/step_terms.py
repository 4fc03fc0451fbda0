"""What a step's duration is made of: physical terms, and the seconds that each costs on one node.

A step takes at least the time to read the weights and every cached key and value that its rows attend to, to compute
its tokens, and what each launch, prompt and sampled token costs the host (Vidur, arXiv 2405.05465; the sums of
aiconfigurator and of BLIS have the same terms). All are counts that a plan of the scheduler tells, so that a cost is a
dot product, and a sum of steps costs what the sum of their terms costs: that is how telemetry, which keeps windows and
not steps, can be fitted too. Of one model on one node the bytes of the weights and the launches are the same in every
step: they are one term.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from agents.engine.scheduling.step_plan import StepPlan

Terms = tuple[float, float, float, float, float, float]
NAMES = ("steps", "tokens", "prompts", "sampled", "context_tokens", "attended")
"""In their order in `Terms`:
steps            1 a step: weights read, launches of all layers, the host's fixed part;
tokens           computed, drafts included: 2 FLOPs a parameter each;
prompts          requests of which it computes more than one token: what the kernels of prompts begin with;
sampled          places whose logits are computed: the head's FLOPs, sampling, and the host's part for a decode;
context_tokens   keys and values read: of each row those of all its tokens up to the last computed;
attended         products of a query and a key in prompts: the part of prefill that grows with the square of its length.
"""


@dataclass(frozen=True)
class StepCost:
    """Seconds for one of each term, none negative."""

    seconds_each: Terms

    @classmethod
    def of(cls, each: Iterable[float]) -> "StepCost":
        """In the order of `NAMES`."""
        steps, tokens, prompts, sampled, context, attended = (float(value) for value in each)
        return cls((steps, tokens, prompts, sampled, context, attended))

    def seconds(self, terms: Terms) -> float:
        """Of one step, or of many whose terms were added up."""
        each = self.seconds_each
        return (
            each[0] * terms[0]
            + each[1] * terms[1]
            + each[2] * terms[2]
            + each[3] * terms[3]
            + each[4] * terms[4]
            + each[5] * terms[5]
        )

    def scaled(self, factor: float) -> "StepCost":
        """The same machine at another pace."""
        steps, tokens, prompts, sampled, context, attended = self.seconds_each
        return StepCost(
            (steps * factor, tokens * factor, prompts * factor, sampled * factor, context * factor, attended * factor)
        )

    def after(self, pause_s: float) -> "StepCost":
        """Each step so many seconds later, or sooner as far as a step's own part allows."""
        steps, *others = self.seconds_each
        tokens, prompts, sampled, context, attended = others
        return StepCost((max(0.0, steps + pause_s), tokens, prompts, sampled, context, attended))

    def over(self, devices: int, split: float) -> "StepCost":
        """Of a model split over so many times as many devices, each of which has its share of every layer (tensor
        parallel): what each reads and multiplies gets less, a prompt's start does not. split: the share of a step's
        fixed part, and of a sampled place, that is weights read and multiplied, and not launches and the host's. What
        they exchange is not counted."""
        steps, tokens, prompts, sampled, context, attended = self.seconds_each
        part = 1.0 - split + split / devices
        return StepCost(
            (steps * part, tokens / devices, prompts, sampled * part, context / devices, attended / devices)
        )


def of_piece(tokens: int) -> Terms:
    """Of a step with nothing but the first so many tokens of a prompt."""
    return (1.0, tokens, float(tokens > 1), 1.0, tokens, tokens * (tokens + 1) / 2)


def terms_of(plan: StepPlan) -> Terms:
    """Of the step that this plan describes."""
    tokens = prompts = sampled = context = 0
    attended = 0.0
    for work in plan.works:
        count, drafts = work.count, work.draft_count
        end = work.start + count
        tokens += count + drafts
        context += end + drafts
        if count > 1:
            prompts += 1
            attended += count * (work.start + (count + 1) / 2)
        if end == len(work.request.tokens):
            sampled += 1 + drafts
    return (1.0, tokens, prompts, sampled, context, attended)


def with_decodes(terms: Terms, rows: int, context: int) -> Terms:
    """Of the same step with so many decodes more; context: their tokens."""
    steps, tokens, prompts, sampled, context_tokens, attended = terms
    return (steps, tokens + rows, prompts, sampled + rows, context_tokens + context, attended)


def summed(several: Iterable[Terms]) -> Terms:
    """Of several steps together."""
    columns = [sum(column) for column in zip(*several, strict=True)] or [0.0] * len(NAMES)
    steps, tokens, prompts, sampled, context, attended = columns
    return (steps, tokens, prompts, sampled, context, attended)
