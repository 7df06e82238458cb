"""What a method is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """Settings laid over the defaults, with their source. Whatever a user sets on top is his own variation."""

    name: str
    summary: str
    paper: str
    differs: str  # where this differs from the paper, or what the paper leaves open
    settings: dict[str, Any] = field(default_factory=dict)  # dotted keys of RunConfig

    def variant(self, name: str, summary: str, differs: str = "", **settings: Any) -> Method:
        """This method with other settings, given with `__` for the dot."""
        over = {k.replace("__", "."): v for k, v in settings.items()}
        return Method(
            name=name,
            summary=summary,
            paper=self.paper,
            differs=differs or self.differs,
            settings={**self.settings, **over},
        )
