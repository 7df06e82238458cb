"""Tiers: what they refuse, how that is proved, and that a tier that cannot be proved is never used."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rollwise.errors import UserError
from rollwise.jail import probe, restrict
from rollwise.jail.canary import ATTEMPTS
from rollwise.jail.launch import Launcher, LauncherError, Tier, make_tier
from rollwise.jail.pool import Pool, Worker
from rollwise.jail.restrict import Kernel, Limits

LANDLOCK = Kernel().abi() if sys.platform == "linux" else 0
pytestmark = pytest.mark.skipif(LANDLOCK < 1, reason="this kernel has no Landlock")
LIMITS = Limits(memory_mb=256, cpu_seconds=10)


def worker(tier: Tier) -> Worker:
    return Worker(tier, LIMITS, 1 << 16)


def adds(worker: Worker, a: int) -> str:
    with worker.session(str(a).encode()) as session:
        return session.script("print(int(input()) + 1)", 20).stdout.decode()


def test_the_default_tier_refuses_every_attempt() -> None:
    found = probe.probe(make_tier("landlock"))
    assert found.holds, found
    assert set(found.refused) == {*ATTEMPTS, "flood"}
    assert "holds" in found.lines()[0] and found.to_json()["holds"] is True


def test_the_same_attempts_succeed_without_a_jail() -> None:
    """Else the canary would prove nothing. What fails here fails for reasons of its own: links to a file that an
    earlier attempt took away, tracing, memory that is limited everywhere, output that is always capped."""
    found = probe.probe(make_tier("none"))
    assert not found.holds
    lawful = {"hard_link", "soft_link", "trace", "memory", "flood"}
    rootless = set() if os.geteuid() == 0 else {"namespace"}
    assert set(ATTEMPTS) - set(found.succeeded) - set(found.unknown) <= lawful | rootless
    assert {"changed a file outside", "changed a folder outside", "connected"} <= set(found.succeeded)
    assert "does NOT hold" in found.lines()[0]


@pytest.mark.parametrize("abi", [1, 3, 5])
def test_an_older_landlock_still_holds_and_says_what_it_lacks(abi: int) -> None:
    found = probe.probe(make_tier("landlock", newest=abi))
    assert found.holds, found
    assert found.missing == restrict.missing(min(abi, LANDLOCK))
    assert any("signals" in line for line in found.lines())


def test_a_kernel_without_landlock_is_refused() -> None:
    with pytest.raises(UserError, match="needs a kernel with Landlock"):
        make_tier("landlock", newest=0)
    # And were it tried all the same, the child would end before it is sent a program.
    blind = Tier("landlock", ("landlock", "seccomp"), newest=0)
    found = probe.probe(blind)
    assert "no Landlock" in found.failure and not found.holds
    with pytest.raises(UserError, match="cannot be used"):
        probe.prove(blind)


def test_a_filter_that_cannot_be_built_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollwise.jail.restrict.platform.machine", lambda: "riscv64")
    with pytest.raises(restrict.RestrictError, match="no seccomp filter for riscv64"):
        restrict.seccomp(Kernel())


@pytest.mark.parametrize("dropped", ["landlock", "seccomp", "landlock seccomp"])
def test_a_launcher_that_leaves_a_layer_out_is_found_out(dropped: str) -> None:
    """Fail-open wrappers, which start the program and say nothing. One layer alone must not pass for two."""
    kept = tuple(layer for layer in ("landlock", "seccomp") if layer not in dropped.split())

    def lax(tier: Tier) -> Launcher:
        return Launcher(dataclasses.replace(tier, layers=kept))

    found = probe.probe(make_tier("landlock"), lax)
    assert not found.holds and found.succeeded


@pytest.mark.parametrize("command", ["true", "false", "no-such-command-here"])
def test_a_launcher_that_starts_nothing_is_found_out(command: str, tmp_path: Path) -> None:
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f"#!/bin/sh\nexec {command}\n")
    wrapper.chmod(0o700)
    found = probe.probe(dataclasses.replace(make_tier("landlock"), prefix=(str(wrapper),)))
    assert not found.holds and "launcher" in found.failure


def test_a_tier_that_does_not_hold_stops_the_run() -> None:
    lax = dataclasses.replace(make_tier("landlock"), layers=())
    with pytest.raises(UserError, match="code jail landlock: does NOT hold; got through: read"):
        probe.prove(lax)
    assert probe.prove(make_tier("none")).tier == "none"  # typed by the user: nothing is claimed of it


def test_bubblewrap_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollwise.jail.launch.shutil.which", lambda name: None)
    with pytest.raises(UserError, match="install the package bubblewrap"):
        make_tier("bwrap")


def test_bubblewrap_holds() -> None:
    try:
        tier = make_tier("bwrap")
    except UserError as error:
        pytest.skip(str(error))
    found = probe.probe(tier)
    if found.failure:
        pytest.skip(f"bubblewrap does not start here: {found.failure}")
    assert found.holds, found
    bare = probe.probe(dataclasses.replace(tier, layers=()))  # the namespaces by themselves
    assert {"read", "write", "connect"}.isdisjoint(bare.succeeded)


def test_tiers_need_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollwise.jail.launch.sys.platform", "darwin")
    for name in ("landlock", "bwrap", "none"):
        with pytest.raises(UserError, match="needs Linux"):
            make_tier(name)


def test_a_launcher_that_dies_is_replaced() -> None:
    tries: list[int] = []

    def dies_once(worker: Worker, a: int) -> str:
        tries.append(a)
        if len(tries) == 1:
            worker._warm().process.kill()
            worker._warm().process.wait()
        return adds(worker, a)

    pool = Pool(make_tier("landlock"), LIMITS, 1 << 16, workers=1)
    try:
        assert pool.map(dies_once, [1, 2]) == ["2\n", "3\n"]
        assert tries == [1, 1, 2]
    finally:
        pool.close()


def test_a_launcher_that_dies_under_a_running_program() -> None:
    pids: list[int] = []

    def kills(worker: Worker, a: int) -> str:
        with worker.session(b"") as session:
            pids.append(session._number())
            worker._warm().process.kill()
            return session.script("while True: pass", 20).how

    pool = Pool(make_tier("landlock"), LIMITS, 1 << 16, workers=1)
    try:
        (failed,) = pool.map(kills, [1])
        assert isinstance(failed, LauncherError)
        assert len(pids) == 2  # it was tried again; and the programs have gone with their launchers
        deadline = time.monotonic() + 20
        while any(alive(p) for p in pids) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not [p for p in pids if alive(p)]
        assert pool.map(adds, [4]) == ["5\n"]
    finally:
        pool.close()


def test_many_at_once_keep_their_order() -> None:
    pool = Pool(make_tier("landlock"), LIMITS, 1 << 16, workers=3)
    try:
        assert pool.map(adds, range(20)) == [f"{a + 1}\n" for a in range(20)]
    finally:
        pool.close()


def test_a_parent_with_many_open_files() -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip("fewer than 2,000 open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    pool = Pool(make_tier("landlock"), LIMITS, 1 << 16, workers=1)
    try:
        assert pool.map(adds, [1]) == ["2\n"]
    finally:
        pool.close()
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


ORPHAN = """
import sys, threading, time
from rollwise.jail.launch import make_tier
from rollwise.jail.pool import Worker
from rollwise.jail.restrict import Limits
worker = Worker(make_tier("landlock"), Limits(), 1000)
with worker.session(b"") as session:
    print(worker._warm().process.pid, session._pid, flush=True)
    session.script("while True: pass", 60)
"""


def test_nothing_outlives_the_parent(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True, env=environment)
    assert parent.stdout is not None
    pids = [int(p) for p in parent.stdout.readline().split()]
    assert len(pids) == 2 and all(alive(p) for p in pids)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while any(alive(p) for p in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [p for p in pids if alive(p)]


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
