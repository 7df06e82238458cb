"""Checkpoints of a verl run: which are whole, which are passed over, which stay. A file plays the workers' shards."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from rollwise import checkpoint
from rollwise.backends.verl.store import VerlStore, newest, steps
from rollwise.config import RunConfig
from rollwise.events import Mark

LOGS = {name: asdict(Mark()) for name in ("events", "clock", "rollouts")}
STATE: dict[str, Any] = {"loop": {"step": 1}, "logs": LOGS, "config": {}, "data": "", "best": None}


class Workers:
    def save_checkpoint(self, path: str, remote: None, step: int, max_ckpt_to_keep: None) -> None:
        Path(path).mkdir(parents=True)
        (Path(path) / "shard.pt").write_bytes(bytes([step]) * 100)


def saved(folder: Path, *numbers: int, keep: int = 9) -> None:
    (folder.parent / "events.jsonl").touch()
    for step in numbers:
        VerlStore({"actor": Workers()}).save(folder, step, STATE, keep=keep, spare=())


def hashed(inner: Path, name: str, content: bytes) -> None:
    """Another content of a file of the state, its manifest right."""
    (inner / name).write_bytes(content)
    manifest = json.loads((inner / "manifest.json").read_text())
    manifest["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (inner / "manifest.json").write_text(json.dumps(manifest, indent=1))


def damage(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda top: hashed(top / "rollwise" / "step_4", name, content)


def linked(top: Path) -> None:
    elsewhere = top.parent.parent / "shard"
    (top / "actor" / "shard.pt").rename(elsewhere)
    (top / "actor" / "shard.pt").symlink_to(elsewhere)


def moved(top: Path) -> None:
    top.rename(top.parent.parent / "moved")
    top.symlink_to(top.parent.parent / "moved")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a pickle": damage("arrays.safetensors", b"\x80\x04K\x01."),
    "depth": damage("state.json", b"[" * 200_000),
    "a list": damage("state.json", b"[1,2]"),
    "bad text": damage("state.json", b"\xff\xfe"),
    "no sizes": damage("state.json", b"{}"),
    "a shorter shard": lambda top: (top / "actor" / "shard.pt").write_bytes(b"x"),
    "another shard": lambda top: (top / "actor" / "shard.pt").write_bytes(bytes([9]) * 100),
    "no shard": lambda top: (top / "actor" / "shard.pt").unlink(),
    "a pipe": lambda top: os.mkfifo(top / "actor" / "more.pt"),
    "a link for a shard": linked,
    "a link for the folder": moved,
    "an unfinished one": lambda top: (top / "rollwise" / "step_4").rename(top / "rollwise" / ".writing"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_the_checkpoint_before_a_damaged_one_is_taken(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "checkpoints"
    saved(folder, 2, 4)
    found = newest(folder, tmp_path, RunConfig())
    assert found is not None and found[0].name == "global_step_4" and found[2] == []
    DAMAGE[kind](folder / "global_step_4")
    found = newest(folder, tmp_path, RunConfig())
    assert found is not None and found[0].name == "global_step_2"
    assert len(found[2]) == 1 and found[2][0].startswith("global_step_4 refused: ")


def test_a_pipe_among_the_checkpoints_is_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    for n in (2, 4, 9):
        os.mkfifo(folder / f"global_step_{n}")
    saved(folder, 4, keep=1)
    assert steps(folder) == [4]
    found = newest(folder, tmp_path, RunConfig())
    assert found is not None and found[2] == []


def test_what_is_torn_takes_no_place_of_a_whole_one(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    saved(folder, 2, 4)
    DAMAGE["an unfinished one"](folder / "global_step_4")
    saved(folder, 5, keep=2)
    assert steps(folder) == [2, 5]


def test_shards_are_on_the_disk_before_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(checkpoint, "sync", lambda path: synced.append(path.name))
    saved(tmp_path / "checkpoints", 2)
    assert synced.index("shard.pt") < synced.index("manifest.json")
