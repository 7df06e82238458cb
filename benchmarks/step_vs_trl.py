"""Seconds for one GRPO step, Rollwise beside TRL, measured in turns in one run.

    python benchmarks/step_vs_trl.py [--task chain_sum] [--pairs 30] [--trl-python build/trl/bin/python]

Both sides train the same starter model on the same prompts in the same order, on one thread each. One process a side;
only one runs at a time: A B, B A, ... after the warm-up, so that a busy minute of the machine falls on both. See
README.md for what is counted and how the sides are set up.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rollwise.assemble import resolve
from rollwise.errors import UserError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LABELS = {"rollwise": "Rollwise", "trl": "TRL"}


@dataclass(slots=True)
class Side:
    """A worker process and what it answered."""

    name: str
    process: subprocess.Popen[str]
    log: Path
    steps: list[dict[str, Any]] = field(default_factory=list)

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.stderr.write(self.log.read_text(encoding="utf-8", errors="replace")[-6000:])
            raise SystemExit(f"{self.name}: the worker ended; its last words are above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def step(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        return self.answer()

    def median(self, key: str) -> float:
        return statistics.median(s[key] for s in self.steps)

    def end(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def launch(name: str, python: str, given: dict[str, Any], folder: Path) -> Side:
    """Start one side's worker and wait until it stands before its first step."""
    log = folder / f"{name}.log"
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    env = os.environ | threads | {
        "PYTHONPATH": str(ROOT / "src"),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    with log.open("w") as errors:
        process = subprocess.Popen(
            [python, str(HERE / f"worker_{name}.py"), json.dumps(given | {"output": str(folder / name)})],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1, env=env, cwd=folder,
        )  # fmt: skip
    side = Side(name, process, log)
    side.answer()
    return side


def measure(sides: list[Side], warmup: int, pairs: int) -> None:
    """Warm-up steps of each side, then pairs of steps in turn; who goes first alternates."""
    for side in sides:
        for _ in range(warmup):
            side.step()
    for pair in range(pairs):
        for side in sides if pair % 2 == 0 else sides[::-1]:
            side.steps.append(side.step())


def table(sides: list[Side]) -> str:
    """Seconds, work and speed of each side, as medians over its steps, and the ratio pair by pair."""
    heads = ("seconds/step", "min", "max", "CPU s", "generate", "rest", "rollouts", "tokens", "tokens/s")
    widths = [max(9, len(h) + 2) for h in heads]
    lines = [" " * 9 + "".join(f"{h:>{w}}" for h, w in zip(heads, widths, strict=True))]
    for side in sides:
        seconds = [s["seconds"] for s in side.steps]
        rest = statistics.median(s["seconds"] - s["generate"] for s in side.steps)
        speed = statistics.median(s["tokens"] / s["seconds"] for s in side.steps)
        times = (side.median("seconds"), min(seconds), max(seconds), side.median("cpu"), side.median("generate"), rest)
        cells = [f"{t:.3f}" for t in times]
        cells += [f"{n:.0f}" for n in (side.median("rollouts"), side.median("tokens"), speed)]
        lines.append(f"{LABELS[side.name]:9}" + "".join(f"{c:>{w}}" for c, w in zip(cells, widths, strict=True)))
    if len(sides) == 2:
        for key, words in (("seconds", "seconds"), ("cpu", "CPU seconds")):
            ratio = [a[key] / b[key] for a, b in zip(sides[0].steps, sides[1].steps, strict=True)]
            low, _, high = statistics.quantiles(ratio, n=4)
            lines.append(
                f"{words}, Rollwise / TRL: median {statistics.median(ratio):.3f}, quartiles {low:.3f} to {high:.3f}, "
                f"range {min(ratio):.3f} to {max(ratio):.3f}, {len(ratio)} pairs"
            )
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="chain_sum", help="a task with a starter model")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=5, help="steps of each side that are not counted")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=["rollwise", "trl"], help="one side alone")
    parser.add_argument("--trl-python", default=str(ROOT / "build/trl/bin/python"), help="python with TRL installed")
    parser.add_argument("--trl", default="{}", help="JSON of GRPOConfig fields, to try TRL's other settings")
    parser.add_argument("--json", type=Path, help="also write every step's numbers here")
    return parser.parse_args()


def main() -> None:
    args = parse()
    settings = {
        "task": args.task,
        "method": "grpo",
        "seed": args.seed,
        "budget": {"steps": 1_000_000},
        "learner": {"updates_per_batch": 1},
        "eval": {"every": None, "prompts": 8, "samples": 1},
        "log": {"report": False},
    }
    try:
        resolve([("benchmark", settings)])
    except UserError as error:
        raise SystemExit(f"step_vs_trl: {error}") from None
    names = [args.only] if args.only else ["rollwise", "trl"]
    pythons = {"rollwise": sys.executable, "trl": args.trl_python}
    if "trl" in names and not Path(args.trl_python).exists():
        raise SystemExit(f"step_vs_trl: no {args.trl_python}; run `make bench`, which makes it, or give --trl-python")
    given = {"settings": settings, "steps": args.warmup + args.pairs, "trl": json.loads(args.trl)}
    sides: list[Side] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name in names:
                sides.append(launch(name, pythons[name], given, Path(folder)))
            measure(sides, args.warmup, args.pairs)
        finally:
            for side in sides:
                side.end()
    print(f"{args.task}, one GRPO step, one thread a side, {args.warmup} steps of warm-up")
    print(table(sides))
    if args.json:
        args.json.write_text(json.dumps({s.name: s.steps for s in sides}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
