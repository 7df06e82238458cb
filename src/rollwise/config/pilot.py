"""What the settings of a pilot allocation come to."""

from __future__ import annotations


def pilot_prompts(prompts: int | None, prompts_per_step: int) -> int:
    """Prompts piloted in a round; by default three times those of a batch."""
    return prompts or 3 * prompts_per_step


def pilot_rollouts(rollouts: int | None, share: float, group_size: int) -> int:
    """Pilot rollouts of a prompt: as set, or their share of the group rounded down; at least 2, for a single one says
    nothing about variance."""
    return rollouts or max(2, int(share * group_size))


def accepted(pilots: int, p_lower: float, p_upper: float) -> range:
    """Numbers of correct ones among `pilots` whose share is in the band, both ends included."""
    inside = [k for k in range(pilots + 1) if p_lower <= k / pilots <= p_upper]
    return range(inside[0], inside[-1] + 1) if inside else range(0)


def optimizer_updates(updates_per_batch: int, group_size: int, pilots: int, sized_by: str) -> int:
    """Mini-batches of a step. Sized by the group they are `updates_per_batch`; sized by the commit rollouts alone, each
    holds n_commit / group_size as many rows, and there are ceil(updates_per_batch x group_size / n_commit)."""
    if sized_by == "group":
        return updates_per_batch
    return -(-updates_per_batch * group_size // (group_size - pilots))
