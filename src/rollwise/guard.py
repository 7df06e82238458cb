"""Watches for a run that has stopped learning: warns once for each sign, and ends the run where it is told to.

Signs over the last `window` steps: groups without reward variance, all right or all wrong, or entropy far below that of
the run's first window. And, by themselves a reason to end: steps in a row in which nothing could teach.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rollwise.config import GuardConfig
from rollwise.state import check_keys, listed, number, odd, whole

WATCHED = ("frac_reward_zero_std", "dead/all_right", "dead/all_wrong", "entropy")
SIGNS = ("all_right", "all_wrong", "dead", "entropy")


class Alarm(NamedTuple):
    notes: tuple[str, ...] = ()  # signs that were not there a step ago
    stop: tuple[str, str] | None = None  # reason and sentence


class Guard:
    """One call of `observe` a step."""

    def __init__(self, config: GuardConfig) -> None:
        self.config = config
        self.recent: list[list[float]] = []  # the watched numbers of up to `window` steps, oldest first
        self.entropy_at_start: float | None = None  # mean over the first whole window
        self.seen: list[str] = []  # signs present after the last step
        self.idle = 0  # steps in a row, up to the last, in which nothing could teach

    def observe(self, metrics: Mapping[str, float], *, idle: bool) -> Alarm:
        """The numbers of a step that generated something, and whether nothing in its batch could teach."""
        self.idle = self.idle + 1 if idle else 0
        longest = self.config.idle_steps
        if longest is not None and self.idle >= longest:
            return Alarm(stop=("dead", f"no group could teach in {self.idle} steps in a row (guard.idle_steps)"))
        if self.config.action == "off":
            return Alarm()
        self.recent = [*self.recent, [metrics[name] for name in WATCHED]][-self.config.window :]
        if len(self.recent) < self.config.window:
            return Alarm()
        signs = self._signs()
        new = tuple(text for name, text in signs.items() if name not in self.seen)
        self.seen = list(signs)
        if self.config.action == "stop" and signs:
            return Alarm(new, ("collapse", next(iter(signs.values()))))
        return Alarm(new)

    def _signs(self) -> dict[str, str]:
        dead, right, wrong, entropy = (sum(column) / len(self.recent) for column in zip(*self.recent, strict=True))
        if self.entropy_at_start is None:
            self.entropy_at_start = entropy
        over = f"over the last {len(self.recent)} steps"
        floor = self.config.entropy_share * self.entropy_at_start
        found = {
            "all_right": (right >= self.config.all_right, f"{right:.0%} of groups were all right {over}: too easy"),
            "all_wrong": (wrong >= self.config.all_wrong, f"{wrong:.0%} of groups were all wrong {over}: too hard"),
            "dead": (dead >= self.config.dead, f"{dead:.0%} of groups had no reward variance {over}"),
            "entropy": (entropy <= floor, f"entropy fell to {entropy:.3g} {over}, from {self.entropy_at_start:.3g}"),
        }
        return {name: text for name, (there, text) in found.items() if there}

    def state_dict(self) -> dict[str, Any]:
        return {
            "recent": [list(row) for row in self.recent],
            "entropy_at_start": self.entropy_at_start,
            "seen": list(self.seen),
            "idle": self.idle,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"recent", "entropy_at_start", "seen", "idle"}, "guard")
        recent = [listed(row, "guard, recent", len(WATCHED)) for row in listed(state["recent"], "guard, recent")]
        if not set(listed(state["seen"], "guard, seen")) <= set(SIGNS):
            raise odd("guard, seen", f"some of {SIGNS}", state["seen"])
        entropy = state["entropy_at_start"]
        self.recent = [[number(value, "guard, recent") for value in row] for row in recent]
        self.entropy_at_start = None if entropy is None else number(entropy, "guard, entropy_at_start")
        self.seen, self.idle = list(state["seen"]), whole(state["idle"], "guard, idle")
