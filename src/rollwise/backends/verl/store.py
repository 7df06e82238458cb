"""A run's state beside verl's own checkpoint, whole or absent.

    checkpoints/global_step_N/{actor, critic, rollwise/step_N}

verl's workers write their shards first; then the state is written, with the size and the SHA-256 of every one of those
files, to a folder that verifies itself; a folder without it is not a checkpoint. Nothing of a checkpoint is given to
verl, which unpickles its shards, before it has been read and compared: that finds what is damaged, and is no guard
against who can write the folder.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rollwise import checkpoint
from rollwise.config import RunConfig
from rollwise.errors import UserError
from rollwise.folder import logs_fit

STATE, TRACKER = "rollwise", "latest_checkpointed_iteration.txt"
HASHING = 8  # files hashed at once
_NAME = re.compile(r"global_step_(\d+)")
_WORLD = re.compile(r"model_world_size_(\d+)_rank_\d+\.pt")  # how verl names an FSDP shard


class VerlStore:
    """Saves the worker groups given by folder name (`actor`, `critic`), then the state."""

    def __init__(self, groups: dict[str, Any]) -> None:
        self.groups = groups

    def save(self, folder: Path, step: int, state: dict[str, Any], *, keep: int, spare: Collection[int]) -> None:
        target = folder / f"global_step_{step}"
        checkpoint.remove(target)  # what a killed save has left, or a run that went on from before
        target.mkdir(parents=True)
        for name, group in self.groups.items():
            group.save_checkpoint(str(target / name), None, step, max_ckpt_to_keep=None)
        for path in (*target.rglob("*"), target):  # on the disk before a state that vouches for them
            checkpoint.sync(path)
        with_shards = {**state, "weights": shards(target)}
        checkpoint.save(target / STATE, step, with_shards, lambda path: path.mkdir(), keep=1)
        tracker = folder / f".{TRACKER}"
        tracker.write_text(str(step), encoding="utf-8")
        os.replace(tracker, folder / TRACKER)
        older = [s for s in steps(folder) if s <= step and _state(folder, s).is_dir()][-keep:]
        for other in steps(folder):
            if other not in spare and other not in older:
                checkpoint.remove(folder / f"global_step_{other}")

    def load_weights(self, path: Path) -> None:
        for name, group in self.groups.items():
            group.load_checkpoint(local_path=str(path / name), del_local_after_load=False)


def sizes(target: Path) -> dict[str, int]:
    """Bytes of every file of verl's part of a checkpoint; -1 of what is a link, or no ordinary file."""
    files = (p for p in sorted(target.rglob("*")) if p.is_symlink() or not p.is_dir())
    plain = {p: p.is_file() and not p.is_symlink() for p in files if p.relative_to(target).parts[0] != STATE}
    return {str(p.relative_to(target)): p.stat().st_size if ordinary else -1 for p, ordinary in plain.items()}


def shards(target: Path) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of every file of verl's part of a checkpoint."""
    found = sizes(target)
    with ThreadPoolExecutor(HASHING) as pool:
        digests = pool.map(_sha256, [target / name for name in found])
        return {
            name: {"bytes": size, "sha256": digest} for (name, size), digest in zip(found.items(), digests, strict=True)
        }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def processes(folder: Path) -> int | None:
    """How many FSDP processes wrote the newest finished checkpoint; None where there is none, or none of FSDP."""
    for step in reversed(steps(folder)):
        if _state(folder, step).is_dir():
            names = (_WORLD.match(p.name) for p in (folder / f"global_step_{step}" / "actor").glob("model_*"))
            return next((int(m.group(1)) for m in names if m), None)
    return None


def check_processes(folder: Path, now: int) -> None:
    """Raises UserError where the newest checkpoint's FSDP shards are not for `now` processes."""
    before = processes(folder)
    if before not in (None, now):
        raise UserError(
            f"{folder}: its shards are of {before} FSDP processes, and {now} would go on; set trainer.nnodes x "
            f"trainer.n_gpus_per_node to {before}"
        )


def _state(folder: Path, step: int) -> Path:
    """Where the state of a checkpoint is, once it is whole."""
    return folder / f"global_step_{step}" / STATE / f"step_{step}"


def steps(folder: Path) -> list[int]:
    """Steps with a checkpoint folder, oldest first; not yet verified."""
    found = (_NAME.fullmatch(p.name) for p in folder.iterdir()) if folder.is_dir() else iter(())
    return sorted(int(m.group(1)) for m in found if m)


def newest(
    folder: Path, output: Path, config: RunConfig, *, hashed: bool = True
) -> tuple[Path, dict[str, Any], list[str]] | None:
    """The newest checkpoint that is whole, its state, and a line on each newer one that was refused; None where there
    is no checkpoint yet. `config` are the settings the run goes on with; without `hashed` the shards are taken for
    whole by their sizes. UserError where there are checkpoints and none is usable."""
    refused: list[str] = []
    for step in reversed(steps(folder)):
        path = folder / f"global_step_{step}"
        try:
            fault, state = _read(path, step, output, config, hashed)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            fault, state = f"unreadable ({type(error).__name__})", None  # whole by its hashes, and no state of a run
        if state is not None:
            return path, state, refused
        refused.append(f"{path.name} refused: {fault}")
    if not refused:
        return None
    raise UserError(f"{folder}: no usable checkpoint ({'; '.join(refused)}); start the run anew")


def _read(path: Path, step: int, output: Path, config: RunConfig, hashed: bool) -> tuple[str, dict[str, Any] | None]:
    """What is wrong with a checkpoint, or its state; `hashed`: whether its shards are read through for that."""
    inner = _state(path.parent, step)
    if path.is_symlink():
        return "it is a link", None
    if not inner.is_dir():
        return "it was not finished", None
    if fault := checkpoint.verify(inner):
        return fault, None
    state = checkpoint.load(inner)
    written = state.pop("weights")
    if sizes(path) != {name: entry["bytes"] for name, entry in written.items()} or (hashed and shards(path) != written):
        return "its weights are not the files that were written", None
    if fault := logs_fit(output, state["logs"], config):
        return fault, None
    return "", state
