"""The pool of processes: deadlines, deaths, threads, and that no text is executed in them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollwise.errors import UserError
from rollwise.records import VerdictKind
from rollwise.verify import workers
from rollwise.verify.mathematics import Math
from rollwise.verify.table import make_verifier
from rollwise.verify.worker import MEMORY, SECONDS, read_number
from rollwise.verify.workers import Pool
from tests.verifying import kinds, verdict

STAND_IN = Path(__file__).parent / "stand_in"
LONG = 30.0  # seconds: no question of these tests comes near it, however busy the machine


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    """A pool whose processes are the stand-in."""
    monkeypatch.setattr(workers, "MODULE", "stand_in_worker")
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    made = Pool(size=2)
    yield made
    made.close()


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone(pid: int) -> bool:
    """Whether the process ends, with time for a busy machine."""
    for _ in range(300):
        if not alive(pid):
            return True
        time.sleep(0.1)
    return False


def test_answers_come_back_in_order_and_each_pair_is_asked_once(pool: Pool) -> None:
    pairs = [("1", "1"), ("1", "2"), ("1", "1"), ("3", "3")]
    assert [a.same for a in pool.ask(pairs, LONG)] == [True, False, True, True]
    assert pool.asked == 3
    pool.ask(pairs, LONG)
    assert pool.asked == 3


def test_one_that_hangs_is_ended_and_the_others_are_answered(pool: Pool) -> None:
    pool.ask([("1", "1"), ("2", "2")], LONG)
    before = [w.process.pid for w in pool.workers]
    pairs = [("hang", ""), *((str(i), str(i)) for i in range(20))]
    found = pool.ask(pairs, 1.0)
    assert found[0].kind == "slow"
    assert found[0].detail == "took longer than 1 s"
    assert all(a.same for a in found[1:])
    assert sum(not alive(pid) for pid in before) == 1
    assert len(pool.workers) == 2  # the replacement is already on its way
    assert pool.ask([("hang", ""), ("a", "a")], 1.0)[1].same  # and a slow one is asked about again


def test_one_that_dies_gets_one_more_try(pool: Pool, tmp_path: Path) -> None:
    flag = str(tmp_path / "flag")
    found = pool.ask([("die once", flag), ("1", "1")], LONG)
    assert [a.same for a in found] == [True, True]
    assert pool.started >= 2


@pytest.mark.parametrize("how", ["die", "flood", "garbage", "out of memory"])
def test_and_then_it_is_the_verifier_that_failed(pool: Pool, how: str) -> None:
    found = pool.ask([(how, "x"), ("1", "1"), ("2", "3")], LONG)
    assert found[0].kind == "failed"
    assert found[0].detail.startswith("math-verify failed twice")
    assert [(a.kind, a.same) for a in found[1:]] == [("said", True), ("said", False)]


def test_one_killed_while_idle_costs_nothing(pool: Pool) -> None:
    pool.ask([("1", "1"), ("2", "2")], LONG)
    for w in pool.workers:
        os.kill(w.process.pid, signal.SIGKILL)
        w.process.wait()
    assert [a.kind for a in pool.ask([("3", "3"), ("4", "5")], LONG)] == ["said", "said"]


def test_processes_that_never_start_are_given_up(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "does not start")
    found = pool.ask([("1", "1"), ("2", "2")], LONG)
    assert [a.kind for a in found] == ["failed", "failed"]
    assert "does not start" in found[0].detail
    monkeypatch.delenv("VIRTUAL_ENV")
    assert pool.ask([("1", "1")], LONG)[0].same


def test_any_thread_may_ask(pool: Pool) -> None:
    out: dict[int, list[bool]] = {}

    def go(i: int) -> None:
        out[i] = [a.same for a in pool.ask([(f"{i}.{j}", f"{i}.{j % 3}") for j in range(6)], LONG)]

    threads = [threading.Thread(target=go, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert out == {i: [True, True, True, False, False, False] for i in range(6)}
    assert pool.started == 2


def test_closing_ends_them(pool: Pool) -> None:
    pool.ask([("1", "1"), ("2", "2")], LONG)
    pids = [w.process.pid for w in pool.workers]
    pool.close()
    assert all(gone(pid) for pid in pids)


def test_they_end_with_their_parent() -> None:
    """Even with one that is killed and has no chance to close anything."""
    code = (
        "import os, signal; from rollwise.verify import workers; workers.MODULE = 'stand_in_worker'\n"
        "pool = workers.Pool(2); pool.ask([('1', '1'), ('2', '2')], 60.0)\n"
        "print(*[w.process.pid for w in pool.workers], flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = os.pathsep.join([str(STAND_IN), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        timeout=120,
    )
    pids = [int(p) for p in done.stdout.split()]
    assert len(pids) == 2, done.stderr
    assert all(gone(pid) for pid in pids)


def test_a_process_gets_no_more_of_the_environment_than_it_needs(monkeypatch: pytest.MonkeyPatch, pool: Pool) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    pool.ask([("1", "1")], LONG)
    environ = Path(f"/proc/{pool.workers[0].process.pid}/environ")
    if not environ.exists():
        pytest.skip("no /proc to read a process's environment from")
    assert b"secret" not in environ.read_bytes()


# -- what the verifier makes of it -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "kind", "detail"),
    [
        (workers.Answer("said", same=True), "correct", ""),
        (workers.Answer("said"), "wrong", "math-verify"),
        (workers.Answer("unread", detail="Exception"), "invalid", "cannot be read"),
        (workers.Answer("gold", detail="Exception"), "infra_error", "gold: "),
        (workers.Answer("slow", detail="took longer than 2 s"), "invalid", "took longer than 2 s"),
        (workers.Answer("failed", detail="math-verify failed twice: x"), "infra_error", "failed twice"),
        (workers.Answer("missing", detail=workers.MISSING), "infra_error", "pip install 'rollwise[math]'"),
    ],
)
def test_what_an_answer_of_the_pool_means(
    monkeypatch: pytest.MonkeyPatch, found: workers.Answer, kind: str, detail: str
) -> None:
    monkeypatch.setattr(workers, "ask", lambda pairs, deadline: [found] * len(pairs))
    got = verdict(Math(), "\\ln n", "\\boxed{\\Gamma(n)}")
    assert got.kind == kind
    assert detail in got.detail


def test_a_setting_that_is_wrong_is_named() -> None:
    assert Math({"deadline": 5}).settings.deadline == 5
    with pytest.raises(UserError, match=r"^math\.deadline is 0; it must be a number of seconds from 0\.1 to 600$"):
        make_verifier("math", {"deadline": 0})
    with pytest.raises(UserError, match=r"^unknown key 'geometry\.dedline'; did you mean 'deadline'\?$"):
        make_verifier("geometry", {"dedline": 3})


def test_without_math_verify_the_exact_rules_still_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "installed", lambda: False)
    assert "pip install 'rollwise[math]'" in Math().notes[0]
    texts = ["\\boxed{\\frac{x^2-1}{x+1}}", "\\boxed{x+1}", "\\boxed{\\ln x}"]
    assert kinds(Math(), "x-1", texts) == ["correct", "wrong", "infra_error"]


# -- with math-verify ------------------------------------------------------------------------------------------------

needs_parser = pytest.mark.skipif(not workers.installed(), reason="math-verify is not installed (extra `math`)")


@needs_parser
def test_the_full_parser_from_another_thread() -> None:
    """math-verify's own time-outs work only in the main thread."""
    out: list[list[str]] = []
    cases = ["\\boxed{1+\\sqrt2}", "\\boxed{2+\\sqrt2}", "\\boxed{\\sin(((}"]
    thread = threading.Thread(target=lambda: out.append(kinds(Math({"deadline": LONG}), "\\sqrt{3+2\\sqrt{2}}", cases)))
    thread.start()
    thread.join()
    assert out == [["correct", "wrong", "invalid"]]


@needs_parser
def test_identities_that_only_the_full_parser_knows() -> None:
    """sympy parses texts of its own while it simplifies; without its parser it must still do so."""
    pairs = [
        ("\\sin^2 x+\\cos^2 x", "1", True),
        ("\\sinh x", "\\frac{e^x-e^{-x}}{2}", True),
        ("\\sum_{k=1}^{n} k", "\\frac{n(n+1)}{2}", True),
        ("\\cos(\\frac{\\pi}{3})", "0.5", True),
        ("|x-1|", "|1-x|", True),
        ("\\ln 2", "0.693147", False),
        ("\\sin x", "x", False),
        ("e^{-90}+\\sin 0", "e^{-200}", False),
    ]
    found = workers.ask([(gold, answer) for gold, answer, _ in pairs], deadline=LONG)
    assert [(a.kind, a.same) for a in found] == [("said", same) for *_, same in pairs]


@needs_parser
def test_a_deadline_and_the_next_answer() -> None:
    math = Math({"deadline": 0.5})
    found = verdict(math, "\\ln n", "\\boxed{(1+x)^{999}(1+y)^{999}(1+x+y)^{999}}")
    assert found.kind is VerdictKind.invalid
    assert found.detail == "took longer than 0.5 s"
    assert verdict(Math({"deadline": LONG}), "\\sqrt{3+2\\sqrt{2}}", "\\boxed{1+\\sqrt2}").kind is VerdictKind.correct


def payloads(marker: Path) -> list[str]:
    call = f"__import__('os').system('touch {marker}')"
    return [
        call,
        f"\\text{{{call}}}",
        f"\\operatorname{{{call}}}(1)",
        f"\\sqrt{{{call}}}",
        f"x={call}",
        f"\\frac{{{call}}}{{1}}",
        f'eval("{call}")',
        f"f({call})",
        f"\\mathrm{{{call}}}",
        f"().__class__.__base__.__subclasses__()[0]({call})",
        f"\\gcd({call},1)",
    ]


@needs_parser
def test_nothing_is_executed(tmp_path: Path) -> None:
    """Neither by the verifier nor in a worker that is handed the text as gold and as answer."""
    marker = tmp_path / "executed"
    texts = payloads(marker)
    assert "correct" not in kinds(Math({"deadline": LONG}), "\\ln n", [f"\\boxed{{{t}}}" for t in texts])
    pool = Pool(size=1)
    try:
        pool.ask([(t, "1") for t in texts] + [("\\ln n", t) for t in texts], LONG)
    finally:
        pool.close()
    assert not marker.exists()


@needs_parser
def test_the_parser_that_evaluates_is_taken_out(tmp_path: Path) -> None:
    """In a process of its own, where the text does run before and does not after."""
    code = (
        "import pathlib, sys, sympy; from rollwise.verify import worker\n"
        "from sympy.parsing.sympy_parser import parse_expr as held\n"
        "def tried(run, name):\n"
        "    path = pathlib.Path(sys.argv[1], name)\n"
        "    try: run(f\"__import__('os').mkdir('{path}')\")\n"
        "    except Exception: pass\n"
        "    print(path.exists())\n"
        "tried(sympy.sympify, 'a'); tried(held, 'b'); worker.without_string_parser()\n"
        "tried(sympy.sympify, 'c'); tried(held, 'd'); tried(sympy.parsing.sympy_parser.parse_expr, 'e')\n"
        "print(sympy.Number('12') + sympy.Number('0.5'))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["True", "True", "False", "False", "False", "25/2"], done.stderr


@needs_parser
def test_a_worker_bounds_itself() -> None:
    pool = Pool(size=1)
    try:
        pool.ask([("\\ln 2", "\\ln 3")], LONG)
        limits = Path(f"/proc/{pool.workers[0].process.pid}/limits")
        if not limits.exists():
            pytest.skip("no /proc to read a process's limits from")
        rows = {line[:26].strip(): line[26:].split() for line in limits.read_text().splitlines()}
    finally:
        pool.close()
    assert int(rows["Max address space"][0]) == MEMORY
    assert int(rows["Max file size"][0]) == int(rows["Max core file size"][0]) == 0
    assert int(rows["Max cpu time"][0]) <= SECONDS + 60


@pytest.mark.parametrize(
    "text", ["", "1e5", "0x10", "1_0", "a.b", "__import__", "a b", "f()", "1.2.3", "--1", "٣", "1;2", "()"]
)
def test_what_stands_in_for_it_reads_digits_and_names_only(text: str) -> None:
    with pytest.raises(ValueError):
        read_number(text)
