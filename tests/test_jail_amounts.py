"""How much of the machine a program gets, however it goes about it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from rollwise.jail.launch import beneath, make_tier, threads_of
from rollwise.jail.pool import Worker
from rollwise.jail.restrict import Kernel, Limits
from rollwise.jail.session import Ran
from rollwise.records import Prompt, VerdictKind
from rollwise.verify.code import Code
from rollwise.verify.scoring import Completion

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or Kernel().abi() < 1, reason="this kernel has no Landlock for the default tier"
)


@pytest.fixture(scope="module")
def jail() -> Iterator[Worker]:
    worker = Worker(make_tier("landlock"), Limits(memory_mb=512, cpu_seconds=10, file_bytes=1 << 20), 1 << 16)
    yield worker
    worker.close()


def run(worker: Worker, program: str, seconds: float = 20) -> Ran:
    with worker.session(b"") as session:
        return session.script(program, seconds)


def test_files_are_counted_while_it_prints(jail: Worker) -> None:
    drip = "import os, time\nfor i in range(9000):\n    open(f'f{i}', 'w').close()\n    os.write(1, b'x')\n"
    assert run(jail, drip + "    time.sleep(0.002)").how == "files"


def test_files_are_counted_between_calls(jail: Worker) -> None:
    """One that answers at once, and leaves a file each time."""
    with jail.session() as session:
        deadline = time.monotonic() + 30
        program = "def f(i): open(f'f{i}', 'w').close()"
        assert session.ask({"mode": "serve", "before": "", "program": program}, deadline)[1] == {"loaded": True}
        events = (session.ask({"call": "f", "args": [i], "kwargs": {}}, deadline)[0] for i in range(100_000))
        assert next(event for event in events if event != "frame") == "files"


def test_no_file_without_a_name(jail: Worker) -> None:
    unnamed = "import os\ntry: os.open('.', os.O_TMPFILE | os.O_RDWR)\nexcept PermissionError: print('refused')"
    assert run(jail, unnamed).stdout == b"refused\n"
    usual = "import tempfile\nwith tempfile.TemporaryFile(dir='.') as f: print(f.write(b'abc'))"
    assert run(jail, usual).stdout == b"3\n"


def test_threads(jail: Worker) -> None:
    start = "import threading, time\nthreading.stack_size(32768)\nfor _ in range({}):\n"
    start += "    threading.Thread(target=time.sleep, args=({},)).start()"
    assert run(jail, start.format(40, 0.5)).how == "exit"
    assert run(jail, start.format(400, 60)).how == "threads"


def test_threads_of_a_launcher_of_its_own(jail: Worker) -> None:
    """Where the number of a process means nothing outside: found as what the launcher started."""
    with jail.session(b"") as session:
        launcher, child = session._launcher, session._number()
        assert child in beneath(launcher.process.pid) and child in beneath(os.getpid())
        assert threads_of(child, 10) == 1 and threads_of(0, 10) == 0


def test_closing_while_it_judges() -> None:
    """Whoever is being judged then is judged again."""
    verifier = Code({"workers": 1, "test_seconds": 20})
    answer = {"form": "stdio", "inputs": [""] * 4, "outputs": ["1"] * 4}
    asked = Completion(prompt=Prompt(uid="x", text="", answer=answer), text="```python\n{}\n```")
    slow = Completion(prompt=asked.prompt, text=asked.text.format("import time\ntime.sleep(0.3)\nprint(1)"))
    found: list[VerdictKind] = []
    thread = threading.Thread(target=lambda: found.extend(v.kind for v in verifier.judge([slow])))
    thread.start()
    time.sleep(0.5)
    verifier.close()
    thread.join(60)
    verifier.close()
    assert found == [VerdictKind.correct]
