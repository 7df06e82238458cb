"""Run folders made up for tests: realistic numbers, no training. Also a stand-in for `rollwise train` when run."""

from __future__ import annotations

import json
import math
import random
import sys
import time
from pathlib import Path
from typing import Any

GROUPS, SIZE = 32, 8
# method -> (rounds a step, growth of accuracy per step, replays)
METHODS = {"grpo": (1, 0.0011, False), "popo": (1, 0.0015, True), "dapo": (4, 0.0024, False)}


def config(method: str, seed: int, budget: int, every_rollouts: int | None = 2560) -> dict[str, Any]:
    return {
        "method": method,
        "task": "sort_digits",
        "model": "starter",
        "seed": seed,
        "output": None,
        "budget": {"rollouts": budget, "tokens": None, "steps": None, "seconds": None},
        "learner": {"lr": 2e-4, "schedule": "constant"},
        "eval": {"every": 10, "every_rollouts": every_rollouts},
    }


def events(
    method: str, seed: int, budget: int, every_rollouts: int | None = 2560, schedule: str = "constant"
) -> list[dict[str, Any]]:
    """The lines of one finished run."""
    rounds, growth, replays = METHODS.get(method, METHODS["grpo"])
    rng = random.Random(f"{method}/{seed}")
    settings = config(method, seed, budget, every_rollouts)
    settings["learner"]["schedule"] = schedule
    per_round = GROUPS * SIZE
    lines: list[dict[str, Any]] = [
        {
            "event": "run",
            "schema": 1,
            "version": "0.1.0",
            "method": method,
            "task": "sort_digits",
            "model": "starter",
            "seed": seed,
            "config": settings,
            "derived": {"rollouts_per_step": rounds * per_round},
        },
        evaluation(0, 0, 0.363, ["start"]),
    ]
    easy, hard, trained, replayed, refill, step, done = 0, 0, 0, 0, 0, 0, 0
    while done + rounds * per_round <= budget:
        step += 1
        done += rounds * per_round
        right = min(0.6, max(0.1, 0.32 + 0.001 * step + rng.gauss(0, 0.05)))
        wrong = min(0.6, max(0.05, 0.4 - 0.001 * step + rng.gauss(0, 0.05)))
        informative = max(0.02, 1 - right - wrong)
        easy += round(right * rounds * per_round)
        hard += round(wrong * rounds * per_round)
        trained = done - easy - hard
        replay = 1 - informative if replays and step > 2 else 0.0
        replayed += round(replay * per_round)
        refill += round(replay * GROUPS * SIZE / informative)
        lines.append(
            {
                "event": "step",
                "step": step,
                "updates": 4 * step,
                "ledger": ledger(done, trained, easy, hard, replayed, refill, step, rounds),
                "metrics": {
                    "reward": 0.363 + growth * step + rng.gauss(0, 0.02),
                    "dead/all_right": right,
                    "dead/all_wrong": wrong,
                    "informative": informative,
                    "completions/mean_length": 12.8 + rng.gauss(0, 0.2),
                    "replay/share": replay,
                    "replay/age_mean": 1.8 + rng.gauss(0, 0.3) if replay else None,
                    "replay/age_max": 5.0 if replay else None,
                    "weight/mean": 1.0 + rng.gauss(0, 0.01) if replay else None,
                    "weight/p99": 1.6 + abs(rng.gauss(0, 0.3)) if replay else None,
                    "weight/max": 2.0 + math.exp(rng.gauss(0.5, 0.8)) if replay else None,
                    "entropy": 0.12 - 0.0003 * step + rng.gauss(0, 0.004),
                },
                "notes": ["buffer holds too few groups; 9 slots kept dead groups"] if replays and step < 3 else [],
            }
        )
        on = ["steps"] if step % 10 == 0 else []
        if every_rollouts and done // every_rollouts > (done - rounds * per_round) // every_rollouts:
            on.append("rollouts")
        end = done + rounds * per_round > budget
        if on or end:
            accuracy = 0.363 + growth * step + rng.gauss(0, 0.01)
            lines.append(evaluation(step, done, accuracy, on + (["end"] if end else [])))
    detail = f"{done:,} of {budget:,} rollouts used; the next step needs {rounds * per_round}"
    last = lines[-2]["ledger"]
    lines.append({"event": "stop", "reason": "budget.rollouts", "detail": detail, "step": step, "ledger": last})
    return lines


def ledger(
    done: int, trained: int, easy: int, hard: int, replayed: int, refill: int, step: int, rounds: int
) -> dict[str, Any]:
    def pair(n: int) -> dict[str, int]:
        return {"rollouts": n, "tokens": round(n * 12.8)}

    outcomes = {"trained": pair(trained), "dropped_easy": pair(easy), "dropped_hard": pair(hard)}
    outcomes |= {k: pair(0) for k in ("surplus", "truncated", "infra_error", "lost_at_epoch_end", "held")}
    return {
        "generated": pair(done),
        "outcomes": outcomes,
        "replayed": pair(replayed),
        "evaluation": pair(2000 * (1 + step // 10)),
        "rounds": step * rounds,
        "updates": 4 * step,
        "skipped_updates": 0,
        "idle_steps": 0,
        "refill": {"rollouts": refill, "unknown": 1},
    }


def evaluation(step: int, rollouts: int, accuracy: float, on: list[str]) -> dict[str, Any]:
    return {
        "event": "eval",
        "step": step,
        "updates": 4 * step,
        "rollouts": rollouts,
        "tokens": round(rollouts * 12.8),
        "on": on,
        "prompts": 1000,
        "samples": 2,
        "sampling": {"temperature": 1.0, "top_p": 1.0, "max_completion_length": 22},
        "results": {"accuracy": accuracy, "reward": accuracy, "pass@2": accuracy + 0.05, "mean_length": 12.8},
    }


def write_run(folder: Path, lines: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (folder / "config.yaml").write_text(json.dumps(lines[0]["config"]), encoding="utf-8")
    return folder


def fake_run(folder: Path, method: str = "popo", seed: int = 0, budget: int = 12000, **more: Any) -> Path:
    return write_run(folder, events(method, seed, budget, **more))


def group(step: int, text: str, uid: str = "sort_digits/7#0") -> dict[str, Any]:
    """A line of rollouts.jsonl."""
    member = {"text": text, "reward": 1.0, "stop": "eos", "completion_ids": [1, 2, 3]}
    member["verdict"] = {"kind": "correct", "score": 1.0, "detail": ""}
    return {"step": step, "uid": uid, "prompt": {"text": "5291=", "messages": None}, "rollouts": [member] * 6}


def train(args: list[str]) -> int:
    """The stand-in: `--fail METHOD/SEED`, `--slow METHOD`, `--set key=value`, `--quiet`."""
    settings: dict[str, str] = {}
    fail, slow, it = "", "", iter(args)
    for arg in it:
        if arg == "--set":
            name, _, value = next(it).partition("=")
            settings[name] = value
        elif arg == "--fail":
            fail = next(it)
        elif arg == "--slow":
            slow = next(it)
    method, seed, out = settings["method"], int(settings["seed"]), Path(settings["output"])
    lines = events(method, seed, int(settings["budget.rollouts"]), int(settings["eval.every_rollouts"]))
    if fail == f"{method}/{seed}":
        write_run(out, lines[:3])
        print("loading\nOutOfMemory: \x1b[31mno room for <b>logits</b>", file=sys.stderr)
        return 3
    if slow == method:
        write_run(out, lines[:4])
        (out / "started").touch()
        time.sleep(60)
    write_run(out, lines)
    return 0


if __name__ == "__main__":
    sys.exit(train(sys.argv[1:]))
