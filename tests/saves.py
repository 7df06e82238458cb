"""Saves killed at random moments: what is left must load, and be what was saved. `python -m tests.saves --kills 200`

A child saves checkpoint after checkpoint, step n full of the number n, until it is killed by SIGKILL. Then the newest
checkpoint that verifies is read: it must exist once one was completed, hold what its step says, and be no older than
the last one the child had reported as done.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from rollwise import checkpoint
from rollwise.errors import UserError


def content(step: int) -> dict[str, Any]:
    return {"step": step, "many": [step] * 2000, "array": np.full(20_000, step), "nested": {"a": np.arange(step % 7)}}


def write_model(step: int, path: Path) -> None:
    path.mkdir()
    (path / "model.safetensors").write_bytes(step.to_bytes(8, "little") * 25_000)
    (path / "config.json").write_text(json.dumps({"step": step}))


def save_for_ever(folder: Path, first: int, done: int) -> None:
    step = first
    while True:
        checkpoint.save(folder, step, content(step), lambda path: write_model(step, path), keep=2)  # noqa: B023
        os.write(done, step.to_bytes(8, "little"))
        step += 1


def right(path: Path) -> bool:
    """Whether a checkpoint holds what its name says."""
    step = int(path.name.removeprefix("step_"))
    state, want = checkpoint.load(path), content(step)
    return (
        state["step"] == step
        and state["many"] == want["many"]
        and np.array_equal(state["array"], want["array"])
        and np.array_equal(state["nested"]["a"], want["nested"]["a"])
        and (path / "model" / "model.safetensors").read_bytes() == step.to_bytes(8, "little") * 25_000
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Kill saves at random moments and read what is left.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    rng = Random(args.seed)
    totals = {"kills": 0, "saved": 0, "inside": 0, "refused": 0, "unusable": 0, "wrong": 0, "lost": 0}
    with tempfile.TemporaryDirectory() as name:
        folder, last = Path(name) / "checkpoints", 1
        clock = time.monotonic()
        checkpoint.save(folder, last, content(last), lambda path: write_model(1, path), keep=2)
        usual = time.monotonic() - clock
        for _ in range(args.kills):
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                try:
                    os.close(reader)
                    save_for_ever(folder, last + 1, writer)
                finally:
                    os._exit(1)
            os.close(writer)
            time.sleep(rng.uniform(0, 4 * usual))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            told = b""
            while block := os.read(reader, 65536):
                told += block
            os.close(reader)
            reported = int.from_bytes(told[-8:], "little") if told else last
            totals["kills"] += 1
            totals["saved"] += len(told) // 8
            totals["inside"] += bool(list(folder.glob(".writing-*")))
            try:
                path, refused = checkpoint.newest(folder)
            except UserError:
                totals["unusable"] += 1
                continue
            last = int(path.name.removeprefix("step_"))
            totals["refused"] += len(refused)
            totals["lost"] += last < reported
            totals["wrong"] += not right(path)
    print(json.dumps(totals))
    return 1 if totals["unusable"] or totals["wrong"] or totals["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
