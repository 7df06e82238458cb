"""Showing that a tier holds before anything is run in it: a canary program tries to get out, and must fail."""

from __future__ import annotations

import functools
import json
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollwise.errors import UserError
from rollwise.jail.canary import ATTEMPTS, CANARY, FLOOD
from rollwise.jail.launch import ENVIRONMENT, Launcher, LauncherError, Tier
from rollwise.jail.pool import Launch, Worker
from rollwise.jail.restrict import Kernel, Limits, missing

OUTPUT_BYTES = 64 << 10
SECONDS = 10.0
OUTLIVE = 0.3
LIMITS = Limits(memory_mb=256, cpu_seconds=10)
KEPT = "canary"  # content of the file that nothing may read or change


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """What was tried in a tier and what came of it."""

    tier: str
    refused: tuple[str, ...]
    succeeded: tuple[str, ...]  # attempts that got through, and effects seen from outside
    unknown: tuple[str, ...] = ()  # attempts that were never reported
    missing: tuple[str, ...] = ()  # what this kernel's Landlock leaves to the seccomp filter
    failure: str = ""  # why nothing could be tried

    @property
    def holds(self) -> bool:
        return not self.succeeded and not self.unknown and not self.failure

    def lines(self) -> list[str]:
        """For people: the finding first."""
        if self.failure:
            return [f"code jail {self.tier}: cannot be used: {self.failure}"]
        if self.holds:
            head = f"code jail {self.tier}: holds; all {len(self.refused)} attempts to get out were refused"
        else:
            head = f"code jail {self.tier}: does NOT hold; got through: {', '.join(self.succeeded + self.unknown)}"
        return [head, *self.missing]

    def to_json(self) -> dict[str, Any]:
        return {
            "tier": self.tier,
            "holds": self.holds,
            "refused": list(self.refused),
            "succeeded": list(self.succeeded),
            "unknown": list(self.unknown),
            "missing": list(self.missing),
            "failure": self.failure,
        }


def probe(tier: Tier, launch: Launch = Launcher) -> ProbeResult:
    """Runs the canary in `tier`, and looks from outside at what it left. Takes under a second where all is refused.

    What counts is the worse of what the canary says and what can be seen: a wrapper that only starts the program, or
    one that answers success and does nothing, is found out.
    """
    notes = missing(Kernel(tier.newest).abi()) if "landlock" in tier.layers else ()
    worker = Worker(tier, LIMITS, OUTPUT_BYTES, launch)
    try:
        outcomes, seen = _escape(worker)
        with worker.session(b"") as session:
            flood = session.script(FLOOD, SECONDS).how
    except (LauncherError, OSError) as error:
        return ProbeResult(tier=tier.name, refused=(), succeeded=(), missing=notes, failure=str(error))
    finally:
        worker.close()
    outcomes["flood"] = "refused" if flood == "output" else "done"
    succeeded = [a for a, outcome in outcomes.items() if outcome == "done"]
    return ProbeResult(
        tier=tier.name,
        refused=tuple(a for a, outcome in outcomes.items() if outcome not in ("done", "unknown")),
        succeeded=tuple(dict.fromkeys([*succeeded, *seen])),
        unknown=tuple(a for a, outcome in outcomes.items() if outcome == "unknown"),
        missing=notes,
    )


@functools.lru_cache(maxsize=16)
def prove(tier: Tier) -> ProbeResult:
    """The result of `probe`, once per process. Raises UserError where the tier does not hold, unless it is `none`."""
    result = probe(tier)
    if tier.name != "none" and not result.holds:
        raise UserError(f"{result.lines()[0]}; choose another tier")
    return result


def _escape(worker: Worker) -> tuple[dict[str, str], list[str]]:
    """The outcome of each attempt as the canary tells it, and the effects that were seen."""
    with tempfile.TemporaryDirectory(prefix="rollwise-canary-") as name, _port() as server:
        folder = Path(name)
        canary, removable = folder / "canary", folder / "removable"
        canary.write_text(KEPT)
        removable.write_text(KEPT)
        canary.chmod(0o640)
        before = canary.stat()
        given = {
            "canary": str(canary),
            "outside": name,
            "port": server.getsockname()[1],
            "memory": 2 * LIMITS.memory_mb << 20,
            "outlive": OUTLIVE,
            "attempts": ATTEMPTS,
        }
        with worker.session(json.dumps(given).encode()) as session:
            ran = session.script(CANARY, SECONDS)
        outcomes, environment = _told(ran.stdout)
        if outcomes["fork_and_outlive"] in ("done", "unknown"):
            time.sleep(2 * OUTLIVE)
        seen = []
        changed = not canary.exists() or canary.read_text() != KEPT
        after = before if changed else canary.stat()
        if changed or (after.st_mode, after.st_mtime_ns, after.st_nlink) != (
            before.st_mode,
            before.st_mtime_ns,
            before.st_nlink,
        ):
            seen.append("changed a file outside")
        if {p.name for p in folder.iterdir()} != {"canary", "removable"}:
            seen.append("changed a folder outside")
        if _called(server):
            seen.append("connected")
        if not set(environment) <= set(ENVIRONMENT) | {"LC_CTYPE", "PWD"}:
            seen.append("saw the environment")
        return outcomes, seen


def _told(stdout: bytes) -> tuple[dict[str, str], list[str]]:
    """What the canary reported. An attempt that began and never ended replaced the process: it succeeded."""
    outcomes = dict.fromkeys(ATTEMPTS, "unknown")
    environment: list[str] = []
    for line in stdout.decode(errors="replace").splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if "trying" in said:
            outcomes[said["trying"]] = "done"
        elif "attempt" in said:
            outcomes[said["attempt"]] = said["outcome"]
        else:
            environment = said["environment"]
    return outcomes, environment


@contextmanager
def _port() -> Iterator[socket.socket]:
    with closing(socket.socket()) as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        server.setblocking(False)
        yield server


def _called(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True
