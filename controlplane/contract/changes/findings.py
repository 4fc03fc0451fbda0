"""What speaks against a configuration on a node, or is worth knowing, before anything moves."""

from pydantic import BaseModel, Field


class Finding(BaseModel):
    """One thing about one node."""

    node: str = Field(description="the node; empty: every node")
    field: str = Field(description="what it is about, such as `knobs.max_num_seqs`")
    refuses: bool = Field(description="whether the node cannot be given this; false: it is told, and goes on")
    problem: str = Field(description="what is so, with the figures")
    mend: str = Field(default="", description="what would be right")

    @property
    def sentence(self) -> str:
        """All of it in one sentence."""
        where = f"{self.node}: " if self.node else ""
        return f"{where}{self.field}: {self.problem}" + (f"; {self.mend}" if self.mend else "")
