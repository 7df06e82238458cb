"""The folder of a run: whose it is, what is written to it, and how a run is asked to stop."""

from __future__ import annotations

import errno
import fcntl
import itertools
import math
import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Protocol

from rollwise import checkpoint
from rollwise.config import RunConfig, dump_yaml, title, to_tree
from rollwise.errors import UserError
from rollwise.events import CLOCK, EVENTS, ROLLOUTS, EventLog, Mark
from rollwise.loop import Loop
from rollwise.policy import Policy
from rollwise.records import Group, StepRecord

LOCK = ".lock"
PART = ".config.yaml.part"


class Display(Protocol):
    """Where progress is shown."""

    def started(self, config: RunConfig, derived: dict[str, Any]) -> None: ...

    def step(self, record: StepRecord, seconds: dict[str, float]) -> None: ...

    def evaluated(self, event: dict[str, Any]) -> None: ...

    def note(self, text: str) -> None: ...

    def stopped(self, event: dict[str, Any]) -> None: ...


def free_output(config: RunConfig) -> Path:
    """The folder asked for, which must be free; or, where none was, the first free one of the default name. Absolute: a
    reward function may change the working folder later."""
    if config.output:
        output = _path(config.output)
        check_free(output)
        return output.absolute()
    return next(c for c in _default_names(config, Path("runs").absolute()) if not _in_use(c))


def _default_names(config: RunConfig, folder: Path) -> Iterator[Path]:
    name = f"{title(config)}-{config.method}-seed{config.seed}"
    return (folder / (name if n == 1 else f"{name}-{n}") for n in itertools.count(1))


def claim(config: RunConfig, output: Path, *, named: bool) -> tuple[Path, IO[str]]:
    """Make the folder and lock it: only now is it certain to be free. Where another run was faster, a name that was
    asked for is refused, and of the default names the next free one is taken. Raises UserError."""
    for place in [output] if named else _default_names(config, output.parent):
        try:
            if not named and _in_use(place):
                continue
            place.mkdir(parents=True, exist_ok=True)
            held = _lock(place)
        except OSError as error:
            raise UserError(f"output: {place} cannot be written ({error.strerror})") from None
        if held is None:
            if named:
                raise _taken(place)
            continue
        if not _in_use(place):  # now that nobody else can take it
            return place, held
        held.close()
        if named:
            check_free(place)
    raise AssertionError("names do not end")


def _path(text: str) -> Path:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise UserError("output: holds characters that no path can; choose another") from None
    if "\0" in text:
        raise UserError("output: holds a zero byte; choose another")
    return Path(text).expanduser()


def check_free(output: Path) -> None:
    if _in_use(output):
        raise UserError(
            f"output: {output} is in use; resume it with `rollwise resume {output}`, choose another, or delete it"
        )


def _in_use(output: Path) -> bool:
    """Whether anything but a lock, or settings half written, is there."""
    return output.exists() and (not output.is_dir() or any(p.name not in (LOCK, PART) for p in output.iterdir()))


def write_config(config: RunConfig, output: Path) -> None:
    """The settings, whole or not at all: without them a run cannot go on."""
    with (output / PART).open("w", encoding="utf-8") as file:
        file.write(dump_yaml(config))
        file.flush()
        os.fsync(file.fileno())
    (output / PART).replace(output / "config.yaml")


class Store(Protocol):
    """Where an engine puts a run's state, and with it the weights, so that both are there or neither is."""

    def save(self, folder: Path, step: int, state: dict[str, Any], *, keep: int, spare: Collection[int]) -> None:
        """Write the checkpoint of `step` under `folder` and drop all others but the newest `keep` and `spare`."""
        ...


class LocalStore:
    """The checkpoints of the local engine: state and model in one folder."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def save(self, folder: Path, step: int, state: dict[str, Any], *, keep: int, spare: Collection[int]) -> None:
        if not self.policy.finite:  # it would take the place of a sound one
            raise UserError(
                f"{folder}: the weights after step {step} are not finite and are not saved; go on from the checkpoint "
                "before, with a smaller learner.lr (--resume-reset optimizer)"
            )
        checkpoint.save(folder, step, state, self.policy.save, keep=keep, spare=spare)


class RunFolder:
    """The run folder as the loop's watcher: writes events, clock times, rollouts and checkpoints."""

    loop: Loop

    def __init__(
        self,
        output: Path,
        config: RunConfig,
        store: Store,
        data: str,
        derived: dict[str, Any],
        display: Display,
        at: Mapping[str, Mark] | None = None,
    ) -> None:
        self.output, self.config, self.store, self.data = output, config, store, data
        self.derived, self.display = derived, display
        place = at or {}
        self.events = EventLog(output / EVENTS, at=place.get("events"))
        self.clock = EventLog(output / CLOCK, at=place.get("clock"))
        # Opened where none are written too: lines after the checkpoint go, and the next one knows where theirs end.
        written = config.log.rollouts or (output / ROLLOUTS).exists()
        self.rollouts = EventLog(output / ROLLOUTS, at=place.get("rollouts")) if written else None
        self.saved_at = 0
        self.best: tuple[int, float] | None = None  # step and value of the best evaluation

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        for log in (self.events, self.clock, self.rollouts):
            if log is not None:
                log.close()

    def finish(self, loop: Loop) -> dict[str, Any]:
        """Run the loop to its end and record why it ended."""
        self.display.started(self.config, self.derived)
        reason, detail = loop.run()
        event = {
            "event": "stop",
            "reason": reason,
            "detail": detail,
            "step": loop.step,
            "ledger": loop.ledger.to_json(),
        }
        self.events.write(event)
        self.display.stopped(event)
        return event

    def step(self, record: StepRecord, groups: Sequence[Group], seconds: dict[str, float]) -> None:
        self.events.write(record.to_json())
        self.clock.write({"step": record.step, "seconds": seconds})
        if self.rollouts is not None and self.config.log.rollouts:
            for group in groups:
                self.rollouts.write({"step": record.step, **logged(group)})
        self.display.step(record, seconds)

    def evaluated(self, event: dict[str, Any]) -> None:
        self.events.write(event)
        self.display.evaluated(event)
        wanted = self.config.checkpoint.best
        # One at the start has nothing new to keep; one at the end only comes after the last checkpoint, and is not part
        # of the run that goes on from there.
        if wanted is None or event["on"] in (["start"], ["end"]):
            return
        value = math.nan if "ended" in event else event["results"][wanted]
        if value > (-math.inf if self.best is None else self.best[1]):  # a NaN is never better
            self.best = (event["step"], value)
            self.checkpoint(event["step"])

    def checkpoint(self, step: int) -> None:
        if step == self.saved_at:
            return
        if self.events.lost:
            raise UserError(
                f"{self.output}: was moved, or its {EVENTS} replaced, while the run wrote to it; resume it where it is "
                f"now, from its last checkpoint (step {self.saved_at})"
            )
        for log in (self.events, self.clock, self.rollouts):
            if log is not None:
                log.sync()
        logs = {"events": self.events, "clock": self.clock, "rollouts": self.rollouts}
        self.store.save(
            self.output / "checkpoints",
            step,
            {
                "loop": self.loop.state_dict(),
                "logs": {name: asdict(Mark() if log is None else log.mark) for name, log in logs.items()},
                "config": {k: v for k, v in to_tree(self.config).items() if k != "output"},
                "data": self.data,
                "best": self.best and list(self.best),
            },
            keep=self.config.checkpoint.keep,
            spare=[self.best[0]] if self.best else [],
        )
        self.saved_at = step


def logs_fit(output: Path, logs: Mapping[str, Mapping[str, Any]], config: RunConfig) -> str | None:
    """Whether the logs still begin with what they held at a checkpoint, whose `logs` these are: None, or what does not.
    Clock times may be missing, and rollouts where the run goes on without writing them."""
    at = marks(logs)
    if fault := at["events"].fault(output / EVENTS):
        return fault
    if config.log.rollouts and (fault := at["rollouts"].fault(output / ROLLOUTS)):
        return f"{fault}; log.rollouts=false goes on without it"
    return None


def marks(logs: Mapping[str, Mapping[str, Any]]) -> dict[str, Mark]:
    """The places in the logs at a checkpoint, whose `logs` these are. Raises ValueError, KeyError, TypeError."""
    out = {name: Mark(**logs[name]) for name in ("events", "clock", "rollouts")}
    if any(type(m.bytes) is not int or m.bytes < 0 for m in out.values()):
        raise ValueError("a place in a log that is none")
    return out


def logged(group: Group) -> dict[str, Any]:
    """The group as JSON for people, each image by the SHA-256 of its bytes."""
    out = group.to_json()
    if group.prompt.images:
        out["prompt"]["images"] = [{"sha256": i.sha256, "bytes": len(i.data)} for i in group.prompt.images]
    return out


def lock(output: Path) -> IO[str]:
    """An exclusive lock on the folder, held until the file is closed."""
    handle = _lock(output)
    if handle is None:
        raise _taken(output)
    return handle


def _lock(output: Path) -> IO[str] | None:
    """None where another run has it. Raises OSError where there can be none, as on some network disks."""
    if (output / LOCK).exists() and not (output / LOCK).is_file():  # a pipe would be waited for
        raise OSError(errno.EINVAL, "it is no file", str(output / LOCK))
    handle = (output / LOCK).open("w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        return None
    except BaseException:
        handle.close()
        raise
    return handle


def _taken(output: Path) -> UserError:
    return UserError(f"output: {output} is being written by another run; wait for it or choose another")


@contextmanager
def interruptible(display: Display) -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM set a flag the loop reads after each step; a second Ctrl-C stops at once."""
    asked = False

    def ask(signum: int, frame: object) -> None:
        nonlocal asked
        if asked and signum == signal.SIGINT:
            raise KeyboardInterrupt
        asked = True
        display.note("stopping after this step; the checkpoint is written then (Ctrl-C again stops at once)")

    before = {s: signal.signal(s, ask) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
