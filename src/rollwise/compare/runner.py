"""The runs of a comparison: one process each, some side by side, finished ones kept, failed ones told.

Beside the run folders lie `logs/<name>.log` (what the process printed) and `logs/<name>.json` (what it was started
with). A finished folder is used again only if it was started with the same arguments and the same recipe files.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from rollwise.compare.measure import Failure
from rollwise.console import Console
from rollwise.errors import UserError
from rollwise.report.events import Run, amount, read_run
from rollwise.report.wording import clean, count, decimal, real, whole

TRAIN = (sys.executable, "-m", "rollwise", "train")
GRACE = 10.0  # seconds a run has to end after it was interrupted
POLL = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run that a comparison needs."""

    method: str
    seed: int
    budget: int  # rollouts
    folder: Path
    arguments: tuple[str, ...]  # after `train`

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def log(self) -> Path:
        return self.folder.parent / "logs" / f"{self.name}.log"

    @property
    def record(self) -> Path:
        return self.log.with_suffix(".json")

    def started_with(self) -> dict[str, Any]:
        """What a finished folder must have been started with to be used again."""
        files = {a: _digest(Path(a)) for a in self.arguments if _is_file(a)}
        return {"arguments": list(self.arguments), "files": files}


def plan(
    methods: Sequence[str],
    seeds: Sequence[int],
    base_args: Sequence[str],
    out: Path,
    rollouts: int,
    more: Mapping[str, float] | None = None,
    round_size: int = 1,
) -> list[Job]:
    """The jobs, those with the largest budget first, so that the last to start are short."""
    more = more or {}
    _check(methods, seeds, rollouts, more)
    fixed = settings(base_args)
    clash = [k for k in ("method", "seed", "output", "budget.rollouts") if k in _overrides(base_args)]
    if clash:
        raise UserError(f"compare: --set {clash[0]} is set by the comparison itself; leave it out")
    if any(factor != 1 for factor in more.values()) and fixed.get("learner.schedule", "constant") != "constant":
        schedule = clean(fixed["learner.schedule"])
        raise UserError(f"compare: learner.schedule is {schedule}; several budgets for one run need constant")
    every = eval_cadence(rollouts, round_size)
    cadence = [] if fixed.get("eval.every_rollouts") else ["--set", f"eval.every_rollouts={every}"]
    jobs = []
    for seed in seeds:
        for method in methods:
            folder, budget = out / f"{method}-seed{seed}", round(rollouts * more.get(method, 1))
            own = {"method": method, "seed": seed, "output": str(folder), "budget.rollouts": budget}
            sets = [part for key, value in own.items() for part in ("--set", f"{key}={_yaml(value)}")]
            arguments = (*base_args, *cadence, *sets, "--quiet")
            jobs.append(Job(method=method, seed=seed, budget=budget, folder=folder, arguments=arguments))
    return sorted(jobs, key=lambda job: -job.budget)


def _check(methods: Sequence[str], seeds: Sequence[int], rollouts: int, more: Mapping[str, float]) -> None:
    for what, values in (("method", methods), ("seed", seeds)):
        if not values:
            raise UserError(f"compare: no {what} given; at least one")
        twice = [v for v in values if list(values).count(v) > 1]
        if twice:
            raise UserError(f"compare: {what} {clean(twice[0])} is given twice")
    for method in methods:
        if not method or method.startswith("-") or set(method) & set("/\\\0") or method in (".", ".."):
            raise UserError(f"compare: '{clean(method)}' is not the name of a method")
    if any(seed < 0 for seed in seeds):
        raise UserError(f"compare: seed {min(seeds)} is negative; at least 0")
    if rollouts <= 0:
        raise UserError(f"compare: rollouts is {rollouts}; it must be above 0")
    for method, factor in more.items():
        if method not in methods:
            raise UserError(
                f"compare: '{clean(method)}' has a larger budget and is not compared; add it to the methods"
            )
        if not 1 <= factor < 1e6:
            raise UserError(
                f"compare: the budget of {clean(method)} is multiplied by {factor:g}; it must be at least 1"
            )


def eval_cadence(rollouts: int, round_size: int = 1) -> int:
    """About 16 evaluations within the base budget, at a whole number of generation rounds, so that for methods of one
    round a step the two cadences fall together."""
    return max(1, round(rollouts / 16 / round_size)) * round_size


def settings(base_args: Sequence[str]) -> dict[str, Any]:
    """The settings that the recipe and the overrides among the arguments give, by dotted name."""
    from rollwise.config import expand_aliases, leaves, merge, read_yaml

    tree: dict[str, Any] = {}
    for arg in base_args:
        if arg.endswith((".yaml", ".yml")) and _is_file(arg):
            tree = merge(tree, expand_aliases(read_yaml(Path(arg)), arg))
    return {**leaves(tree), **_overrides(base_args)}


def _overrides(base_args: Sequence[str]) -> dict[str, Any]:
    from rollwise.config import leaves, parse_override

    texts = [b for a, b in pairwise(base_args) if a == "--set"]
    texts += [a.removeprefix("--set=") for a in base_args if a.startswith("--set=")]
    return {key: value for text in texts for key, value in leaves(parse_override(text)).items()}


def _yaml(value: Any) -> str:
    """The value as `--set` must be given it to be read back the same."""
    import yaml

    text = str(value)
    try:
        same = yaml.safe_load(text) == value
    except (yaml.YAMLError, ValueError):
        same = False
    return text if same else json.dumps(value)


def kept(jobs: Sequence[Job]) -> dict[str, Run]:
    """Runs that are finished already. A folder in the way that is not one of this comparison is an error."""
    done: dict[str, Run] = {}
    for job in jobs:
        if not job.folder.exists() and not job.folder.is_symlink():
            continue
        try:
            before = json.loads(job.record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            before = None
        if not isinstance(before, dict) or {k: before.get(k) for k in ("arguments", "files")} != job.started_with():
            raise UserError(
                f"{clean(job.folder)}: holds a run that was started differently; give another folder, or remove it"
            )
        if before.get("finished") is True:
            found = read_run(job.folder)
            if (found.method, found.seed) != (job.method, job.seed):
                raise UserError(f"{clean(job.folder)}: holds {clean(found.method)}, seed {found.seed}; remove it")
            done[job.name] = found
    return done


@dataclass(slots=True)
class _Child:
    """A run that is going."""

    job: Job
    process: subprocess.Popen[bytes]
    log: BinaryIO
    began: float
    offset: int = 0
    rest: bytes = b""
    rollouts: int = 0
    step: int = 0
    accuracy: float = field(default=float("nan"))

    def look(self) -> None:
        """Read what its event log has gained. Never fails: this is only for the eye."""
        try:
            with (self.job.folder / "events.jsonl").open("rb") as file:
                file.seek(self.offset)
                data = file.read(2**22)
        except OSError:
            return
        self.offset += len(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            try:
                event = json.loads(line)
                if event["event"] == "step":
                    self.step, self.rollouts = whole(event["step"]), amount(event["ledger"], "generated", "rollouts")
                elif event["event"] == "eval":
                    self.accuracy = real(event["results"].get("accuracy"))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue

    def board(self) -> tuple[str, float, str]:
        words = f"step {self.step}, {count(self.rollouts)} rollouts, held-out accuracy {decimal(self.accuracy)}"
        return self.job.name, self.rollouts / self.job.budget, words


def run(
    jobs: Sequence[Job], at_once: int, console: Console, train: Sequence[str] = TRAIN
) -> tuple[dict[str, Run], list[Failure]]:
    """Do the jobs, `at_once` side by side; finished runs by name, and those that gave none.

    An interrupt (Ctrl-C, or SIGTERM) ends the children and is raised again as KeyboardInterrupt.
    """
    if at_once < 1:
        raise UserError(f"compare: {at_once} jobs at once; at least 1")
    done = kept(jobs)
    for name in done:
        console.say([f"{name}: finished before with the same settings, used again"])
    waiting = [job for job in jobs if job.name not in done]
    failures: list[Failure] = []
    going: list[_Child] = []
    before = _terminate_like_interrupt()
    try:
        while waiting or going:
            while waiting and len(going) < at_once:
                going.append(_start(waiting.pop(0), train))
            time.sleep(POLL)
            for child in list(going):
                child.look()
                status = child.process.poll()
                if status is None:
                    continue
                going.remove(child)
                result = _end(child, status)
                if isinstance(result, Run):
                    done[child.job.name] = result
                else:
                    failures.append(result)
                left = len(waiting) + len(going)
                console.say([f"{_told(child, result)}; {left} of {len(jobs)} left"])
            if going:
                console.board([child.board() for child in going])
    finally:
        _end_all(going)
        if before is not None:
            signal.signal(signal.SIGTERM, before)
    order = {job.name: i for i, job in enumerate(jobs)}
    return done, sorted(failures, key=lambda failure: order[failure.name])


def _alive(folder: Path) -> bool:
    """Whether a process holds the lock of a run folder."""
    lock = folder / ".lock"
    if not lock.is_file():
        return False
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _start(job: Job, train: Sequence[str]) -> _Child:
    job.log.parent.mkdir(parents=True, exist_ok=True)
    if job.folder.is_symlink():
        raise UserError(f"{clean(job.folder)}: is a link; remove it")
    if job.folder.exists():  # an unfinished run of this very job: `kept` made sure
        if _alive(job.folder):
            raise UserError(f"{clean(job.folder)}: is still being written by another process; wait for it or end it")
        shutil.rmtree(job.folder)
    job.record.write_text(json.dumps(job.started_with()) + "\n", encoding="utf-8")
    log = job.log.open("wb")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        process = subprocess.Popen(
            [*train, *job.arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # a Ctrl-C reaches the children through us alone, once
        )
    except OSError as error:
        log.close()
        raise UserError(f"compare: cannot start {clean(train[0])} ({error.strerror})") from None
    return _Child(job=job, process=process, log=log, began=time.monotonic())


def _end(child: _Child, status: int) -> Run | Failure:
    child.log.close()
    job = child.job
    if status != 0:
        ended = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
        return Failure(name=job.name, reason=f"{ended}: {last_line(job.log)}")
    try:
        result = read_run(job.folder)
    except UserError as error:
        return Failure(name=job.name, reason=str(error))
    if result.stop is None or result.stop.reason == "interrupt":
        return Failure(name=job.name, reason="ended before its budget was used")
    job.record.write_text(json.dumps({**job.started_with(), "finished": True}) + "\n", encoding="utf-8")
    return result


def _told(child: _Child, result: Run | Failure) -> str:
    seconds = time.monotonic() - child.began
    if isinstance(result, Failure):
        return f"{result.name}: failed after {seconds:.0f} s, {result.reason}"
    accuracy = result.evals[-1].accuracy if result.evals else float("nan")
    done = f"{count(result.rollouts)} rollouts, {count(result.last_step)} steps, last accuracy {decimal(accuracy)}"
    return f"{result.name}: finished in {seconds:.0f} s, {done}"


def last_line(log: Path) -> str:
    """The last line of a log that is not blank, fit to print."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 2**14))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return "its log cannot be read"
    return next((clean(line.strip(), 300) for line in reversed(lines) if line.strip()), "its log is empty")


def _terminate_like_interrupt() -> Any:
    """Let SIGTERM end the comparison as Ctrl-C does; returns the handler to put back, None outside the main thread."""

    def raise_interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    try:
        return signal.signal(signal.SIGTERM, raise_interrupt)
    except ValueError:
        return None


def _end_all(children: Sequence[_Child]) -> None:
    """Interrupt the children, give them a moment, then kill what is left. A second Ctrl-C kills at once."""
    for child in children:
        _signal(child, signal.SIGINT)
    until = time.monotonic() + GRACE
    try:
        while any(child.process.poll() is None for child in children) and time.monotonic() < until:
            time.sleep(POLL)
    except KeyboardInterrupt:
        pass
    finally:
        for child in children:
            if child.process.poll() is None:
                _signal(child, signal.SIGKILL)
                child.process.wait()
            child.log.close()


def _signal(child: _Child, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.process.pid, number)


def _is_file(argument: str) -> bool:
    try:
        return Path(argument).is_file()
    except (OSError, ValueError):
        return False


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
