"""`rollwise train --backend verl`: checks, the run's folder, and verl's command as a process of its own.

The folder's lock is held here and by verl's driver. The trainer, in another process and perhaps on another machine of
the cluster, writes the events; `.stop` in the folder asks it to end after the running step, `.error` is the line with
which it could not begin. A resumed run has its settings from `.resume.yaml` until it goes on; only then are they
the folder's. What verl prints goes to the terminal and to `verl.log`.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rollwise.backends.verl import cpu
from rollwise.backends.verl.compose import composed
from rollwise.backends.verl.mapping import check, to_verl
from rollwise.backends.verl.overrides import arguments
from rollwise.backends.verl.store import check_processes, newest, steps
from rollwise.backends.verl.table import ACTOR, engine
from rollwise.backends.verl.versions import check_entry_point, check_verl
from rollwise.config import RunConfig, dump_yaml
from rollwise.errors import UserError, show
from rollwise.events import EVENTS
from rollwise.folder import Display, claim, free_output, lock, write_config

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1  # of Linux's prctl
LOG, STOP, ERROR, WANTED = "verl.log", ".stop", ".error", ".resume.yaml"  # files of the run folder
ENGINE = {"model_engine": "dp", f"{ACTOR}.strategy": "fsdp2"}  # what decides how shards are written, and its default
ERRORS = re.compile(r"\b[\w.]*(?:Error|Exception)(?:\([\w.]+\))?: .+")
COMMAND = (sys.executable, "-m", "verl.trainer.main_ppo")

Tree = dict[str, Any]


def shown(config: RunConfig) -> list[str]:
    """verl's settings of a run as its command line takes them; needs no verl."""
    return arguments(to_verl(config, free_output(config)))


def start(config: RunConfig, display: Display, *, quiet: bool = False) -> tuple[Path, Tree]:
    """Train from the beginning. Everything that can be is checked before the folder is made. Returns folder and stop
    event. Raises UserError, also for what the trainer could not do; `Died` where verl ended without a word."""
    from rollwise.backends.verl.reading import read
    from rollwise.run import anchor_paths, checked_tasks

    check_here(config)
    named, output = config.output is not None, free_output(config)
    anchor_paths(config)
    composed(arguments(to_verl(config, output)))
    read(config, checked_tasks(config, display), display.note)
    output, held = claim(config, output, named=named)
    with held:
        config.output = str(output)
        write_config(config, output)
        return output, _run(config, output, to_verl(config, output), display, held, quiet=quiet)


def resume(output: Path, changes: Callable[[Tree], RunConfig], display: Display, *, quiet: bool = False) -> Tree:
    """Continue a run from its newest whole checkpoint, with the changes that a resumed run may have. A UserError raised
    before verl starts leaves the folder as it was, one of the trainer its settings."""
    from rollwise.run import allowed_changes, check_none_lost, resumed_config

    config, stored = resumed_config(output, changes)
    check_here(config)
    allowed_changes(output, stored, config, ())
    settings = {**to_verl(config, output), "+rollwise.config": str(output / WANTED), "+rollwise.resume": True}
    composed(arguments(settings))
    with lock(output) as held:
        if not steps(output / "checkpoints"):
            check_none_lost(output)
        _check_engine(output / "checkpoints", stored, config, settings)
        newest(output / "checkpoints", output, config, hashed=False)  # shards are hashed by the trainer
        (output / WANTED).write_text(dump_yaml(config), encoding="utf-8")
        try:
            return _run(config, output, settings, display, held, quiet=quiet)
        finally:
            (output / WANTED).unlink(missing_ok=True)


def _check_engine(folder: Path, stored: RunConfig, config: RunConfig, settings: Tree) -> None:
    """Raises UserError where the checkpoints cannot be read by the workers there would be."""
    if not steps(folder):
        return
    for name, default in ENGINE.items():
        was, now = (c.verl.get(name, default) for c in (stored, config))
        if was != now:
            raise UserError(f"verl.{name} was {was} and would be {now}; shards are for the engine that wrote them")
    if engine(config) == "dp":
        sizes = {name.lstrip("+"): value for name, value in settings.items()}
        check_processes(folder, sizes["trainer.nnodes"] * sizes["trainer.n_gpus_per_node"])


def check_here(config: RunConfig) -> None:
    """Raises UserError unless verl can run these settings from this environment."""
    check(config)
    check_verl()
    check_entry_point()
    policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto").strip().lower()
    if policy != "auto" and "rollwise" not in [name.strip() for name in policy.split(",")]:
        raise UserError(
            f"VERL_USE_EXTERNAL_PLUGINS is {policy}: verl would not load Rollwise; unset it, or add rollwise"
        )


class Died(Exception):
    """verl ended without a stop event. The message is one line."""


def _run(config: RunConfig, output: Path, settings: Tree, display: Display, held: IO[str], *, quiet: bool) -> Tree:
    before = _written(output)
    for name in (STOP, ERROR):
        (output / name).unlink(missing_ok=True)
    own = cpu.environment() if config.device == "cpu" else {}
    display.note(f"starting verl; what it prints is also in {output / LOG}")
    command = [*COMMAND, *arguments({**settings, "hydra.run.dir": str(output / "hydra")})]
    status = _process(command, {**os.environ, **own}, output, display, held, quiet=quiet)
    if (output / ERROR).is_file():
        said = (output / ERROR).read_text(encoding="utf-8").strip()
        (output / ERROR).unlink()
        raise UserError(said)
    stop = _stop(output)
    if stop is None or _written(output) == before:
        cause = _cause(output / LOG)
        raise Died(
            f"verl ended with status {status} before the run did{cause and f' ({cause})'}; what it printed is in "
            f"{output / LOG}; go on with: rollwise resume {output}"
        )
    return stop


def _cause(log: Path) -> str:
    """What the last error in the log says, where there is one near its end."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 2**16))
        found = ERRORS.findall(file.read().decode("utf-8", "replace"))
    return show(found[-1].strip(), 200)[1:-1] if found else ""


def _written(output: Path) -> int | None:
    """When the run's log was last written; a resumed run that has nothing left to do writes the same bytes again."""
    return (output / EVENTS).stat().st_mtime_ns if (output / EVENTS).is_file() else None


def _stop(output: Path) -> Tree | None:
    """The stop event that the run's log ends with."""
    if not (output / EVENTS).is_file():
        return None
    last = (output / EVENTS).read_bytes().splitlines(keepends=True)[-1:]
    if not last or not last[0].startswith(b'{"event":"stop"') or not last[0].endswith(b"\n"):
        return None
    found: Tree = json.loads(last[0])
    return found


def _process(
    command: Sequence[str], env: dict[str, str], output: Path, display: Display, held: IO[str], *, quiet: bool
) -> int:
    """Runs the command to its end, in a session of its own so that the terminal's Ctrl-C reaches this process alone.
    Where this process is killed, verl's driver is asked to end, and Ray with it; it has the folder's lock too, which is
    not free before."""
    before = _written(output)
    with (output / LOG).open("ab") as log, _passing_on(output, display, lambda: _written(output) != before):
        process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(held.fileno(),),
            preexec_fn=_ending_with_this_process,  # noqa: PLW1509 - one call into a library that is loaded already
        )
        assert process.stdout is not None
        copy = threading.Thread(target=_copied, args=(process.stdout, log, quiet), daemon=True)
        copy.start()
        try:
            status = process.wait()
        except KeyboardInterrupt:
            _end(process)
            raise
        copy.join(timeout=10)  # what Ray has left running may hold the pipe open
        return status


def _ending_with_this_process() -> None:
    """In the child: ask the kernel for SIGTERM when its parent ends, however that is. Only Linux has that."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _copied(source: IO[bytes], log: IO[bytes], quiet: bool) -> None:
    """All that verl prints to the log and the terminal. Where one of them takes no more, the other goes on, and verl,
    which would wait for a reader, is read to its end."""
    terminal = None if quiet else getattr(sys.stderr, "buffer", None)
    ways = [way for way in (log, terminal) if way is not None]
    while chunk := os.read(source.fileno(), 65536):
        for way in tuple(ways):
            try:
                way.write(chunk)
                way.flush()
            except (OSError, ValueError):
                ways.remove(way)


@contextmanager
def _passing_on(output: Path, display: Display, begun: Callable[[], bool]) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM asks the trainer to end after the running step, the second, or one before the run has
    begun, is a KeyboardInterrupt."""
    asked = 0

    def ask(signum: int, frame: object) -> None:
        nonlocal asked
        asked += 1
        if asked == 2 or (asked == 1 and not begun()):
            asked = 2
            raise KeyboardInterrupt
        if asked == 1:
            (output / STOP).touch()
            display.note("stopping after this step; the checkpoint is written then (again: stops at once)")

    before = {s: signal.signal(s, ask) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)


def _end(process: subprocess.Popen[bytes]) -> None:
    """verl's driver, which takes Ray with it; by force where it does not end."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
