"""Programs that attack the judge or the machine, each with what must become of it. Harmless where they succeed."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollwise.jail import session as sessions
from rollwise.jail.launch import make_tier
from rollwise.jail.pool import Worker
from rollwise.jail.restrict import Kernel, Limits
from rollwise.jail.session import Ran

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or Kernel().abi() < 1, reason="this kernel has no Landlock for the default tier"
)
CAP = 1 << 16
LIMITS = Limits(memory_mb=256, cpu_seconds=10, file_bytes=1 << 20)
REFUSED = "PermissionError\n"
THREADS = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}


@pytest.fixture(scope="module")
def jail() -> Iterator[Worker]:
    worker = Worker(make_tier("landlock"), LIMITS, CAP)
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def open_air() -> Iterator[Worker]:
    worker = Worker(make_tier("none"), LIMITS, CAP)
    yield worker
    worker.close()


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where scratch folders are made; nothing may be left there."""
    folder = tmp_path / "scratches"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def run(worker: Worker, program: str, stdin: bytes = b"", seconds: float = 20) -> Ran:
    with worker.session(stdin) as session:
        return session.script(program, seconds)


def attempt(action: str) -> str:
    """A program that says what came of one action."""
    body = "\n    ".join(action.splitlines())
    caught = "except Exception as e:\n    print(type(e).__name__)"
    return f"import os, sys, socket\ntry:\n    {body}\n    print('done')\n{caught}"


def both(jail: Worker, open_air: Worker, action: str) -> tuple[str, str]:
    return run(open_air, attempt(action)).stdout.decode(), run(jail, attempt(action)).stdout.decode()


def test_files_of_the_machine(jail: Worker, open_air: Worker, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    for action in (f"open({str(secret)!r}).read()", "open('/etc/passwd').read()", f"os.listdir({str(tmp_path)!r})"):
        assert both(jail, open_air, action) == ("done\n", REFUSED), action
    assert both(jail, open_air, "open('/proc/self/maps').read()") == ("done\n", REFUSED)


def test_the_environment_is_a_list_of_what_is_allowed(
    jail: Worker, open_air: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")  # the launchers may run already: both are asked for the whole list
    for worker in (jail, open_air):
        names = run(worker, "import os; print(*os.environ)").stdout.decode().split()
        assert set(names) <= {"LANG", "PATH", "PYTHONHASHSEED", "LC_CTYPE"} | THREADS


def test_changes_outside_scratch(jail: Worker, open_air: Worker, tmp_path: Path) -> None:
    actions = {
        "write": "open({0!r}, 'w').write('y')",
        "truncate": "os.truncate({0!r}, 0)",
        "chmod": "os.chmod({0!r}, 0o777)",
        "rename": "os.rename({0!r}, {0!r} + '2')",
        "link": "os.link({0!r}, {0!r} + '3')",
        "symlink": "os.symlink({0!r}, {0!r} + '4')",
        "folder": "os.mkdir({0!r} + '5')",
    }
    for name, action in actions.items():
        canary = tmp_path / name
        canary.write_text("x")
        assert run(jail, attempt(action.format(str(canary)))).stdout.decode() == REFUSED, name
        assert canary.read_text() == "x" and canary.stat().st_mode & 0o777 != 0o777
        assert [p.name for p in tmp_path.glob(f"{name}*")] == [name]
        assert run(open_air, attempt(action.format(str(canary)))).stdout.decode() == "done\n", name


def test_sockets_and_names(jail: Worker, open_air: Worker) -> None:
    for kind in (
        "AF_INET, socket.SOCK_STREAM",
        "AF_INET6, socket.SOCK_DGRAM",
        "AF_UNIX",
        "AF_NETLINK, socket.SOCK_RAW",
    ):
        assert both(jail, open_air, f"socket.socket(socket.{kind}).close()")[1] == REFUSED, kind
    assert both(jail, open_air, "a, b = socket.socketpair()") == ("done\n", REFUSED)
    assert run(jail, attempt("socket.getaddrinfo('localhost.example', 80)")).stdout.decode() == "gaierror\n"


def test_signals_and_other_processes(jail: Worker, open_air: Worker) -> None:
    assert both(jail, open_air, "os.kill(os.getppid(), 0)") == ("done\n", REFUSED)
    for action in ("os.kill(os.getppid(), 19)", "os.killpg(0, 0)", "os.kill(-1, 0)", "os.kill(1, 0)"):
        assert run(jail, attempt(action)).stdout.decode() == REFUSED, action
    assert run(jail, "print('still there')").stdout == b"still there\n"
    # Its own signals are its own business.
    assert run(jail, attempt("os.kill(os.getpid(), 0)")).stdout == b"done\n"


def test_processes_cannot_be_started(jail: Worker, open_air: Worker) -> None:
    assert both(jail, open_air, "if os.fork() == 0: os._exit(0)") == ("done\n", REFUSED)
    assert both(jail, open_air, "import subprocess; subprocess.run(['true'])") == ("done\n", REFUSED)
    assert run(jail, attempt("assert os.system('true') == 0")).stdout == b"AssertionError\n"
    by_libc = "import ctypes\nassert ctypes.CDLL(None).system(b'true') == 0"
    assert both(jail, open_air, by_libc) == ("done\n", "AssertionError\n")
    bomb = """
import os
n = 0
for _ in range(1000):
    try:
        os.fork()
        n += 1
    except OSError: pass
print(n)
"""
    assert run(jail, bomb).stdout == b"0\n"


def test_threads_work_and_are_bounded(jail: Worker) -> None:
    program = """
import threading, sys
threading.stack_size(64 << 20)
sys.setrecursionlimit(10**6)
def main(n):
    return 0 if n == 0 else 1 + main(n - 1)
t = threading.Thread(target=lambda: print(main(20000)))
t.start(); t.join()
"""
    assert run(jail, program).stdout == b"20000\n"
    bomb = """
import threading, time
count = 0
try:
    while True:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        count += 1
except (RuntimeError, MemoryError):
    print(count < 2000)
"""
    assert run(jail, bomb).stdout == b"True\n"


def test_a_grandchild_that_holds_stdout_does_not_stall(open_air: Worker, tmp_path: Path) -> None:
    """Without a jail it can exist; the call returns all the same, and its process group is gone."""
    program = f"import os, time\nprint('out', flush=True)\nif os.fork() == 0:\n    open({str(tmp_path / 'pid')!r}, 'w')"
    program += ".write(str(os.getpid()))\n    time.sleep(60)\nelse: time.sleep(0.3)"
    ran = run(open_air, program, seconds=40)
    assert ran.how == "exit" and ran.stdout == b"out\n"
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while (
        os.path.exists(f"/proc/{pid}/cmdline")
        and Path(f"/proc/{pid}/cmdline").read_text()
        and time.monotonic() < deadline
    ):
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{pid}/cmdline") or not Path(f"/proc/{pid}/cmdline").read_text()


def test_memory_is_bounded(jail: Worker) -> None:
    ran = run(jail, "x = bytearray(8 << 30)")
    assert (ran.how, ran.error, ran.status) == ("exit", "MemoryError", 1)
    assert run(jail, "x = []\nwhile True: x.append(' ' * 10**6 + str(len(x)))").error == "MemoryError"


def test_a_crash_is_the_programs_own(jail: Worker, scratch: Path) -> None:
    ran = run(jail, "import ctypes; ctypes.string_at(0)")
    assert (ran.how, ran.status) == ("exit", -11)
    assert run(jail, "import os; os.abort()").status == -6
    assert run(jail, "print(1)").stdout == b"1\n"


def test_files_are_bounded(jail: Worker) -> None:
    large = "f = open('x', 'wb')\nwhile True: f.write(b'x' * 65536)"
    assert run(jail, large).error == "OSError"
    many = "i = 0\nwhile True:\n    open(str(i), 'w').close()\n    i += 1"
    assert run(jail, many).how == "files"
    assert run(jail, attempt("os.mkdir('d')")).stdout.decode() == REFUSED  # so that all can be counted
    few = "open('a', 'w').write('kept')\nprint(open('a').read())\nimport os\nos.remove('a')"
    assert run(jail, few).stdout == b"kept\n"


def test_output_is_bounded(jail: Worker) -> None:
    ran = run(jail, "while True: print('x' * 1000)")
    assert ran.how == "output" and len(ran.stdout) <= CAP
    errors = run(jail, "import sys\nfor _ in range(1000): sys.stderr.write('x' * 10000)\nprint('end')")
    assert errors.how == "exit" and errors.stdout == b"end\n"
    frames = "import os\nwhile True: os.write(3, b'\\0\\0\\0\\2{}' * 1000)"
    assert run(jail, frames).how == "output"
    trickle = "import os, time\nwhile True:\n    os.write(1, b'x')\n    os.write(3, b'\\0')\n    time.sleep(0.001)"
    assert run(jail, trickle, seconds=0.5).how in ("time", "output")
    lie = "import os, time\nos.write(3, b'\\xff\\xff\\xff\\xff')\ntime.sleep(60)"
    assert run(jail, lie).how == "output"


def test_input_may_be_left_unread(jail: Worker) -> None:
    assert run(jail, "print('fine')", stdin=b"x" * (5 << 20)).stdout == b"fine\n"
    assert run(jail, "import sys; print(len(sys.stdin.read()))", stdin=b"x" * (5 << 20)).stdout == b"5242880\n"


@pytest.mark.parametrize(
    "program",
    [
        "sum(range(10**15))",
        "import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\n"
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        "import threading\nthreading.Event().wait()",
        "input()\nimport time; time.sleep(1000)",
        "import os\nfor fd in range(64):\n    try: os.close(fd)\n    except OSError: pass\nwhile True: pass",
    ],
)
def test_the_deadline_holds(jail: Worker, program: str) -> None:
    before = time.monotonic()
    assert run(jail, program, stdin=b"\n", seconds=0.5).how == "time"
    assert time.monotonic() - before < 20  # by far; what matters is that it ends at all


def test_links_in_scratch_do_not_lead_the_cleaner_out(jail: Worker, open_air: Worker, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "kept").write_text("x")
    for action in (f"os.symlink({str(victim)!r}, 'way')", f"os.link({str(victim / 'kept')!r}, 'hard')"):
        assert both(jail, open_air, action) == ("done\n", REFUSED)
    assert (victim / "kept").read_text() == "x" and (victim / "kept").stat().st_nlink == 1


def test_nothing_is_handed_to_the_next_program(jail: Worker) -> None:
    hijack = """
import sys, builtins
for name in ("conftest.py", "sitecustomize.py", "json.py", "collections.py", "x.pth"):
    open(name, "w").write("print('hijacked')")
builtins.print = None
sys.modules["json"] = None
"""
    assert run(jail, hijack).how == "exit"
    check = "import os, json, collections\nprint(os.listdir('.'), json.dumps([1]))"
    assert run(jail, check).stdout == b"[] [1]\n"


def test_the_scratch_of_another_program(jail: Worker, scratch: Path) -> None:
    with jail.session(b"") as first:
        (folder,) = scratch.iterdir()
        (folder / "own").write_text("x")
        assert run(jail, attempt(f"os.listdir({str(folder)!r})")).stdout.decode() == REFUSED
        assert run(jail, attempt(f"open({str(folder / 'own')!r}).read()")).stdout.decode() == REFUSED
        assert first.script("print(open('own').read())", 20).stdout == b"x\n"


def test_the_launcher_knows_nothing_of_other_programs(open_air: Worker) -> None:
    """Its memory, which every program inherits, is searched; without a jail, since `/proc` is closed in one."""
    search = """
import re
pattern = re.compile(b"sec[r]et-of-the-first")
found = 0
for line in open("/proc/self/maps"):
    bounds, rights = line.split()[:2]
    if rights[0] == "r" and "[v" not in line:
        start, end = (int(b, 16) for b in bounds.split("-"))
        with open("/proc/self/mem", "rb") as memory:
            memory.seek(start)
            try: found += len(pattern.findall(memory.read(end - start)))
            except (OSError, MemoryError): pass
print(found)
"""
    assert run(open_air, "x = 'secret-of-the-first'").how == "exit"
    assert run(open_air, search, stdin=b"").stdout == b"0\n"
    assert run(open_air, "x = 'sec' + 'ret-of-the-first'\n" + search).stdout != b"0\n"  # the search can find


def test_descriptors_that_are_left_open(jail: Worker, open_air: Worker) -> None:
    program = "import os\nfor fd in range(64):\n    try: os.fstat(fd); print(fd, end=' ')\n    except OSError: pass"
    for worker in (jail, open_air):
        assert run(worker, program).stdout == b"0 1 2 3 "


def test_root_inside_is_nobody(jail: Worker) -> None:
    program = "import ctypes\nlibc = ctypes.CDLL(None)\nheader = (ctypes.c_uint32 * 2)(0x20080522, 0)\n"
    program += "data = (ctypes.c_uint32 * 6)()\nprint(libc.capget(header, data), list(data))"
    assert run(jail, program).stdout in (b"0 [0, 0, 0, 0, 0, 0]\n", b"-1 [0, 0, 0, 0, 0, 0]\n")


def test_a_bad_frame_is_not_an_answer(jail: Worker) -> None:
    def said(program: str) -> tuple[str, dict[str, Any]]:
        with jail.session() as session:
            return session.ask({"mode": "serve", "before": "", "program": program}, time.monotonic() + 20)

    write = "import os, struct\ndef put(b): os.write(3, struct.pack('>I', len(b)) + b)\n"
    assert said(write + "put(b'not json')") == ("frame", {})
    assert said(write + "put(b'[1, 2]')") == ("frame", {})
    assert said(write + f"put(b'{'[' * 5000}')") == ("frame", {})
    assert said("import os; os._exit(0)") == ("exit", {})
    assert said("raise SystemExit(0)")[1] == {"error": "SystemExit"}
    assert said("class E(BaseException): pass\nraise E")[1] == {"error": "E"}


def test_scratch_limits_are_as_documented() -> None:
    assert sessions.SCRATCH_FILES * Limits().file_bytes <= 256 << 20
