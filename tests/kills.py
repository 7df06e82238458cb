"""Runs killed at random moments and resumed, against the same runs left alone. `python -m tests.kills --help`

One process imports everything and then forks a child for each run, so that a run costs no start. A child is killed by
SIGKILL at a random moment between its start and its expected end, and a new child resumes it, until it has ended by
itself. Events, rollouts, weights and saved state must then be those of the run that was left alone, bit for bit.

Prints a JSON line for each run compared, and a last line with the totals; exit status 1 where anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

Tree = dict[str, Any]

STEPS = 5
SMALL: Tree = {
    "task": "sort_digits",
    "task_args": {"max_digits": 8, "train_size": 40},
    "prompts_per_step": 5,
    "group_size": 4,
    "budget": {"steps": STEPS},
    "eval": {"every": 2, "prompts": 4, "samples": 1},
    "learner": {"updates_per_batch": 2, "warmup_updates": 2},
    "checkpoint": {"every": 1, "keep": 2},
    "log": {"report": False, "rollouts": True},
}


@dataclass(slots=True)
class Totals:
    runs: int = 0
    kills: int = 0
    begun_again: int = 0  # kills before the first checkpoint
    inside_saves: int = 0  # kills that left a half-written checkpoint behind
    refused: int = 0  # checkpoints a resume would not take
    different: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def child(act: Callable[[], Any], log: Path) -> int:
    """Fork; the child runs `act` and leaves. Returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(out, 2)
        act()
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(status)


def begin(tree: Tree, folder: Path) -> None:
    from rollwise import run
    from rollwise.assemble import resolve
    from rollwise.console import Console

    run.start(resolve([("kills", {**tree, "output": str(folder)})]), Console())


def go_on(folder: Path) -> None:
    from rollwise import run
    from rollwise.config import build
    from rollwise.console import Console

    run.resume(folder, build, Console())


def wait(pid: int, seconds: float) -> int | None:
    """The child's exit code; None where it was still running after `seconds`, and was killed."""
    end = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= end:
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            # It may have ended by itself between the two looks.
            return None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)
        time.sleep(0.001)


def outcome(folder: Path) -> Tree:
    """All that must not depend on where a run was killed."""
    from rollwise import checkpoint

    events = [json.loads(line) for line in (folder / "events.jsonl").read_bytes().splitlines()]
    last = max(checkpoint.steps(folder / "checkpoints"))
    path = folder / "checkpoints" / f"step_{last}"
    fault = checkpoint.verify(path)
    assert fault is None, fault
    state = checkpoint.load(path)
    state["loop"].pop("seconds")
    state.pop("logs")
    return {
        "events": [e for e in events if e["event"] in ("step", "eval", "stop")],
        "rollouts": (folder / "rollouts.jsonl").read_bytes(),
        "weights": (path / "model" / "model.safetensors").read_bytes(),
        "state": state,
    }


def differing(a: Any, b: Any, where: str = "") -> Iterator[str]:
    """Places in which two trees of JSON values, bytes and arrays differ."""
    import numpy as np

    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        for k in a:
            yield from differing(a[k], b[k], f"{where}.{k}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from differing(x, y, f"{where}[{i}]")
    elif isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
            yield where
    elif a != b:
        yield where


def compare(name: str, tree: Tree, kills: int, rng: Random, work: Path, totals: Totals) -> None:
    """One run left alone, and one killed up to `kills` times."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    log, whole, cut = work / "log", work / "whole", work / "cut"
    clock = time.monotonic()
    if wait(child(lambda: begin(tree, whole), log), 600) != 0:
        totals.failed.append(f"{name}: {log.read_text()[-2000:]}")
        return
    usual = time.monotonic() - clock
    code: int | None = None
    for i in range(kills + 1):
        started = (cut / "config.yaml").exists()
        patience = 600.0 if i == kills else rng.uniform(0.15, 1.05) * usual
        if started and not (cut / "checkpoints").exists():
            totals.begun_again += 1
        code = wait(child((lambda: go_on(cut)) if started else (lambda: begin(tree, cut)), log), patience)
        if code is not None:
            break
        totals.kills += 1
        totals.inside_saves += bool(list((cut / "checkpoints").glob(".writing-*"))) if cut.exists() else 0
    totals.runs += 1
    totals.refused += log.read_text().count(" refused: ")
    if code != 0:
        totals.failed.append(f"{name}: {log.read_text()[-2000:]}")
        return
    places = list(differing(outcome(whole), outcome(cut)))
    if places:
        totals.different.append(f"{name}: {', '.join(places[:5])}")
    print(json.dumps({"run": name, "kills": totals.kills, "differs": places[:5]}), flush=True)


def cases() -> dict[str, Tree]:
    """Every method by name, and the settings under which much is remembered."""
    from rollwise.config import merge, nest
    from rollwise.methods import method_names
    from tests.conftest import acting

    def tree(method: str, **more: Any) -> Tree:
        out = merge(SMALL, {"method": method})
        for dotted, value in {**acting(method), **more}.items():
            out = merge(out, nest(dotted, value))
        return out

    out = {name: tree(name) for name in method_names()}
    stages = [{"until": {"steps": 2}, "reset": ["optimizer", "replay", "history"]}, {}]
    out["srpo, two stages"] = tree("srpo", **{"curriculum.stages": stages})
    out["dapo, surplus carried"] = tree("dapo", **{"allocation.surplus": "carry"})
    out["popo, best kept"] = tree("popo", **{"checkpoint.best": "accuracy", "checkpoint.keep": 1})
    return out


def warm() -> None:
    """Import, load and build once what every child would. No backward pass: autograd does not survive a fork."""
    import torch

    from rollwise import evaluate, run  # noqa: F401
    from rollwise.policy import load_policy
    from rollwise.records import Prompt, Request, Sampling
    from rollwise.sampling.torch_sampler import TorchSampler
    from rollwise.starters import starter_path

    torch.set_num_threads(1)
    policy = load_policy(str(starter_path("sort_digits")))
    prompt = Prompt(uid="warm", messages=[{"role": "user", "content": "31="}])
    sampler = TorchSampler(policy, max_prompt_length=24, max_rows=8)
    sampler.generate([Request(prompt=prompt, count=2)], Sampling(max_completion_length=4), run_seed=0, step=0)
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)], fused=True).zero_grad()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Kill runs at random moments, resume them, compare.")
    parser.add_argument("--minutes", type=float, help="go round all cases until then; default: once")
    parser.add_argument("--kills", type=int, default=2, help="of one run, at most (default 2)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="cases, with semicolons")
    args = parser.parse_args(argv)
    warm()
    rng, totals, every = Random(args.seed), Totals(), cases()
    if args.only:
        every = {name: every[name] for name in args.only.split(";")}
    end = time.monotonic() + 60 * args.minutes if args.minutes else None
    with tempfile.TemporaryDirectory() as folder:
        while True:
            for name, tree in every.items():
                compare(name, {**tree, "seed": rng.randrange(1000)}, args.kills, rng, Path(folder) / "run", totals)
                if end and time.monotonic() > end:
                    break
            if not end or time.monotonic() > end:
                break
    print(json.dumps({"seed": args.seed, **{k: getattr(totals, k) for k in Totals.__slots__}}), flush=True)
    return 1 if totals.different or totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())
