"""Reward functions of the user: found before a model is loaded, called in four shapes, and never a zero nobody gave."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwise import run
from rollwise.assemble import load_tasks, resolve
from rollwise.cli.main import main
from rollwise.config import build, expand_aliases, merge, parse_override, read_yaml, to_tree
from rollwise.console import Console
from rollwise.errors import UserError
from rollwise.records import Prompt, Verdict, VerdictKind
from rollwise.verify import reward_value
from rollwise.verify import user as user_module
from rollwise.verify.reward_value import NoScore, value_of, values_of
from rollwise.verify.scoring import Completion, infra_error
from rollwise.verify.user import UserRewards
from tests.conftest import SMALL, Finished
from tests.models import tiny_model

Train = Callable[..., Finished]
RIGHT = Verdict(kind=VerdictKind.correct, score=1.0)
WRONG = Verdict(kind=VerdictKind.wrong, score=0.0, detail="other digits")
GOLDLESS = infra_error("gold: none")

SHAPES = {
    "trl": """
def f(prompts, completions, completion_ids, answer, size, **columns):
    assert prompts[0][0]["role"] == "user" and len(completion_ids) == len(size) == len(prompts)
    return [float(c[0]["content"] == a) for c, a in zip(completions, answer)]
""",
    "verl": """
def f(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    assert data_source == "sort_digits" and extra_info["size"] == len(ground_truth)
    return {"score": float(solution_str == ground_truth), "acc": True}
""",
    "verifiers": """
async def f(completion, answer, state):
    assert state["completion"] == completion and state["info"]["size"] == len(answer)
    return completion[-1]["content"] == answer
""",
    "own": """
def f(completion: str, answer, *, prompt, meta):
    assert prompt[-1]["content"].endswith("=") and meta["size"] == len(answer)
    return 1.0 if completion == answer else 0.0
""",
}


def written(folder: Path, text: str, name: str = "r.py") -> str:
    (folder / name).write_text(text)
    return f"{folder / name}:f"


def said(text: str, answer: Any = "12", **meta: Any) -> Completion:
    messages = [{"role": "user", "content": "21="}]
    return Completion(prompt=Prompt(uid="u", messages=messages, answer=answer, task="t", meta=meta), text=text)


def scored(folder: Path, text: str, own: list[Verdict], texts: list[str] | None = None) -> list[Verdict]:
    rewards = UserRewards({written(folder, text): 1.0})
    return rewards.verdicts([said(t) for t in texts or ["12"] * len(own)], own)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"), "Qwen3")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The run that all others are compared with."""
    tree = {**SMALL, "method": "popo", "output": str(tmp_path_factory.mktemp("plain") / "run"), "budget": {"steps": 2}}
    folder, _ = run.start(resolve([("test", tree)]), Console())
    return Finished(folder)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_function_that_says_what_the_verifier_says_trains_the_same_weights(
    train: Train, plain: Finished, tmp_path: Path, shape: str
) -> None:
    done = train("popo", {"budget.steps": 2, "reward.function": written(tmp_path, SHAPES[shape])})
    assert done.weights() == plain.weights()
    assert [e["results"] for e in done.evals] == [e["results"] for e in plain.evals]
    for mine, theirs in zip(done.steps, plain.steps, strict=True):
        assert mine["metrics"].pop("rewards/f/mean") == mine["metrics"]["reward"]
        assert mine == theirs


def test_another_score_trains_other_weights_and_leaves_accuracy_alone(
    train: Train, plain: Finished, tmp_path: Path
) -> None:
    spec = written(tmp_path, "def f(completion: str):\n    return len(completion) / 8")
    done = train("popo", {"budget.steps": 2, "reward.function": spec})
    assert done.weights() != plain.weights()
    assert done.evals[0]["results"]["accuracy"] == plain.evals[0]["results"]["accuracy"]
    assert done.evals[0]["results"]["reward"] != plain.evals[0]["results"]["reward"]
    assert done.steps[0]["metrics"]["accuracy"] == plain.steps[0]["metrics"]["accuracy"]


def test_no_score_is_no_verdict_and_is_counted(train: Train, tmp_path: Path) -> None:
    spec = written(tmp_path, "def f(completions, **_):\n    return [None if i % 4 == 0 else 1 for i in range(24)]")
    done = train("popo", {"budget.steps": 1, "reward.function": spec, "log.rollouts": True})
    assert done.metric("verifier/infra_error") == [0.25]
    verdicts = [r["verdict"] for g in done.groups() for r in g["rollouts"]]
    assert {v["detail"] for v in verdicts if v["kind"] == "infra_error"} == {"f: no score"}


def test_resume_with_another_reward_file_is_refused(train: Train, tmp_path: Path) -> None:
    spec = written(tmp_path, SHAPES["own"])
    done = train("popo", {"budget.steps": 2, "reward.function": spec})

    def on(stored: dict[str, Any]) -> Any:
        return build(merge(stored, {"budget": {"steps": 3}}))

    (tmp_path / "r.py").write_text(SHAPES["own"].replace("1.0", "2.0"))
    with pytest.raises(UserError, match="file of reward functions has changed since it began"):
        run.resume(done.folder, on, Console())
    (tmp_path / "r.py").write_text(SHAPES["own"])
    assert run.resume(done.folder, on, Console())["step"] == 3


def test_the_short_form_and_the_other_keys_of_the_section(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("reward: mine.py:f\nbudget: {steps: 1}\n")
    more = merge(parse_override("reward=other.py:g"), parse_override("reward.overlong_buffer=4"))
    assert more == {"reward": {"function": "other.py:g", "overlong_buffer": 4}}
    for layers, want in (([], "mine.py:f"), ([("--set", more)], "other.py:g")):
        assert resolve([("r", read_yaml(recipe)), *layers]).reward.function == want
    assert expand_aliases({"reward": {"overlong_buffer": 4}}, "f") == {"reward": {"overlong_buffer": 4}}


@pytest.mark.parametrize(
    "text,words",
    [
        (None, "cannot be read (No such file or directory)"),
        ("def f(completions)\n    return 1", "r.py line 1: not valid Python (expected ':')"),
        ("x = 1\nraise ValueError('no')", "r.py line 2: running it raised ValueError: no"),
        ("import sys\nprint('loud')\nsys.exit(3)", "r.py line 3: running it raised SystemExit: 3"),
        ("import no_such_package", "running it raised ModuleNotFoundError"),
        ("def g(completions): ...", "no function 'f'; known: g"),
        ("f = 3", "'f' is 3; it must be a function"),
        ("def f(text, gold): ...", "takes (text, gold); a reward function takes `completions`"),
        ("def f(*args, **kw): ...", "takes (args, kw); a reward function takes"),
        ("def f(completion, /): ...", "a reward function takes"),
        ("def f(solution_str, reference): ...", "'reference' is none of data_source, extra_info"),
        ("def f(completion, answer, parser): ...", "'parser' is none of answer, completion"),
        ("def f(completions, level): ...", "needs 'level', which is no column of sort_digits"),
        ("f = min", "its arguments cannot be read"),
        ("\0", "not valid Python"),
    ],
)
def test_what_cannot_be_used_is_one_line_before_the_model_loads(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str | None,
    words: str,
) -> None:
    monkeypatch.setattr(run, "load_model", lambda *_: pytest.fail("the model was loaded"))
    if text is not None:
        (tmp_path / "r.py").write_text(text)
    argv = ["train", "--output", str(tmp_path / "out"), "--set", f"reward={tmp_path / 'r.py'}:f"]
    status = main(argv)
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if line != "loud"]  # what the file prints goes to standard error
    assert (status, out, len(lines)) == (2, "", 1), (out, err)
    assert words in lines[0]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("spec", ["f", "r.py", "r.txt:f", "r.py:", "r.py:f.g", ":f", "r.py:f\0"])
def test_names_that_name_no_function(spec: str) -> None:
    with pytest.raises(UserError, match="give it as file"):
        UserRewards({spec: 1.0})


def test_two_keys_for_one_thing_are_refused() -> None:
    tree = {"budget": {"steps": 1}, "reward": {"function": "a.py:f", "functions": {"b.py:g": 1.0}}}
    with pytest.raises(UserError, match="both set; keep one"):
        resolve([("f", tree)])


@pytest.mark.parametrize(
    "body,reason",
    [
        ("return [1.0]", "f: 1 scores for 2 completions"),
        ("return [float('nan'), 1.0]", "f: score nan"),
        ("return [float('-inf'), 1.0]", "f: score -inf"),
        ("raise KeyError('gold')", "f: KeyError: 'gold'"),
        ("return [None, 1.0]", "f: no score"),
        ("return None", "f: returned None, not a list"),
        ("return 1.0", "f: returned 1.0, not a list"),
        ("return {'score': [1.0, 1.0]}", "f: returned {'score': [1.0, 1.0]}, not a list"),
        ("return ['1.0', 1.0]", "f: not a number: '1.0'"),
        ("return [10**400, 1.0]", "f: OverflowError"),
        ("import sys; sys.exit(1)", "f: SystemExit: 1"),
        ("return (1 / 0 for _ in completions)", "not a list"),
    ],
)
def test_failures_are_no_verdict_with_the_reason(tmp_path: Path, body: str, reason: str) -> None:
    first, second = scored(tmp_path, f"def f(completions, **_):\n    {body}\n", [RIGHT, WRONG])
    assert first.kind is VerdictKind.infra_error and reason in first.detail
    alone = "nan" in reason or "inf" in reason or reason in ("f: no score", "f: OverflowError") or "number" in reason
    assert (second.kind is VerdictKind.wrong and second.score == 1.0) is alone


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_one_that_raises_costs_that_one_only(tmp_path: Path, kind: str) -> None:
    text = f"{kind} f(completion, answer):\n    return 1 / len(completion[0]['content'])"
    first, second = scored(tmp_path, text, [WRONG, RIGHT], ["", "1234"])
    assert (first.kind, first.detail) == (VerdictKind.infra_error, "f: ZeroDivisionError: division by zero")
    assert (second.kind, second.score) == (VerdictKind.correct, 0.25)


@given(
    st.one_of(
        st.floats(),
        st.integers(-(10**300), 10**300),
        st.booleans(),
        st.text(),
        st.none(),
        st.binary(),
        st.lists(st.floats()),
    )
)
def test_a_value_is_a_finite_number_or_no_score(given_value: Any) -> None:
    value = value_of(given_value)
    number = isinstance(given_value, int | float) and abs(given_value) <= 1e30
    assert value == float(given_value) if number else isinstance(value, NoScore)
    assert value_of({"score": given_value, "acc": True}) == value


def test_numbers_of_other_libraries() -> None:
    for number in (np.float32(0.5), np.array(0.5), np.array([0.5]), True - 0.5):
        assert value_of(number) == 0.5
    assert value_of(np.bool_(True)) == value_of(True) == 1.0
    assert values_of(np.array([0.0, 1.0]), 2) == values_of((0, True), 2) == [0.0, 1.0]
    assert isinstance(value_of(np.array([0.5, 0.5])), NoScore) and isinstance(value_of(np.float64("nan")), NoScore)


def test_without_a_gold_the_score_says_what_is_correct(tmp_path: Path) -> None:
    spec = written(tmp_path, "def f(completion: str):\n    return float(completion)")
    failed = infra_error("worker died")
    for threshold, kinds in ((1.0, ["correct", "wrong"]), (0.4, ["correct", "correct"])):
        rewards = UserRewards({spec: 1.0}, threshold)
        got = rewards.verdicts([said("1"), said("0.5"), said("1")], [GOLDLESS, GOLDLESS, failed])
        assert [(v.kind.value, v.score) for v in got[:2]] == [(kinds[0], 1.0), (kinds[1], 0.5)]
        assert got[2] == failed  # the verifier failed on an answer it could have judged


def test_rows_without_any_gold_train_on_the_score(tmp_path: Path, tiny: Path, capsys: Any) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": f"Say a number above {i}.", "floor": i}) + "\n" for i in range(24)))
    text = "def f(completions, floor, answer):\n    return [len(c[0]['content']) / 8 for c in completions]"
    argv = ["train", "--task", "data", "--model", str(tiny), "--output", str(tmp_path / "run"), "--method", "grpo"]
    for setting in (
        f"task_args={{data: {rows}, verifier: none}}",
        f"reward={written(tmp_path, text)}",
        "budget.steps=1",
        "prompts_per_step=4",
        "group_size=2",
        "sampling.max_completion_length=8",
        "log.rollouts=true",
        "log.report=false",
    ):
        argv += ["--set", setting]
    assert main(argv) == 0, capsys.readouterr().err
    done = Finished(tmp_path / "run")
    verdicts = [(r["verdict"], len(r["text"]) / 8) for g in done.groups() for r in g["rollouts"]]
    assert all(v["score"] == s and v["kind"] == ("correct" if s >= 1 else "wrong") for v, s in verdicts)
    assert done.groups()[0]["prompt"]["messages"][0]["content"].endswith(".")  # no word on how to answer
    capsys.readouterr()
    argv[argv.index(str(tmp_path / "run"))] = str(tmp_path / "other")
    assert main([a.replace(", verifier: none", "") for a in argv]) == 2
    assert "no column for the gold answer" in capsys.readouterr().err


def test_a_verdict_stands_as_it_is(tmp_path: Path) -> None:
    text = """
from rollwise.records import Verdict, VerdictKind
def f(completion: str, answer):
    return Verdict(kind=VerdictKind.invalid, score=float(completion), detail="mine")
"""
    invalid = VerdictKind.invalid
    got = scored(tmp_path, text, [RIGHT, GOLDLESS], ["-1", "nan"])
    assert got[0] == Verdict(kind=invalid, score=-1.0, detail="mine")
    assert got[1].kind is VerdictKind.infra_error


def test_several_functions_are_a_weighted_sum(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text(
        "def right(completions, answer):\n    return [c[0]['content'] == a for c, a in zip(completions, answer)]\n"
        "def short(completion: str):\n    return None if completion == 'x' else -len(completion)\n"
    )
    rewards = UserRewards({f"{tmp_path}/r.py:right": 2.0, f"{tmp_path}/r.py:short": 0.5})
    got = rewards.verdicts([said("12"), said("x"), said("111")], [RIGHT, WRONG, WRONG])
    assert [v.score for v in got] == [1.0, 0.0, -1.5]
    assert rewards.take() == {"rewards/right/mean": 1 / 3, "rewards/short/mean": -2.5}
    assert rewards.take() == {}


def test_columns_of_the_rows_reach_the_function(tmp_path: Path) -> None:
    text = """
seen = {}
def f(prompts, completions, **columns):
    seen.update(columns, prompts=prompts, completions=completions)
    prompts.clear(); columns["level"].clear()
    return [0.0] * len(completions)
"""
    rewards = UserRewards({written(tmp_path, text): 1.0})
    plain = Completion(prompt=Prompt(uid="p", text="2 1 =", answer={"target": 3, "nums": [1, 2]}), text="1+2")
    rewards.verdicts([said("12", level=3, solution="so"), plain], [RIGHT, RIGHT])
    seen = rewards.scorers[0][0].function.call.__globals__["seen"]
    assert seen["completions"] == [[{"role": "assistant", "content": "12"}], "1+2"]
    assert seen["answer"] == seen["ground_truth"] == ["12", plain.prompt.answer]
    assert seen["solution"] == ["so", plain.prompt.answer]
    assert seen["target"] == [None, 3] and seen["nums"] == [None, [1, 2]]


def test_asynchronous_functions_run_side_by_side_and_under_a_running_loop(tmp_path: Path) -> None:
    text = """
import asyncio
most = now = 0
async def f(completion, answer):
    global most, now
    now += 1
    most = max(most, now)
    await asyncio.sleep(0.01)
    now -= 1
    return most
"""
    rewards = UserRewards({written(tmp_path, text): 1.0})

    async def inside() -> list[Verdict]:
        return rewards.verdicts([said("1")] * 3, [WRONG] * 3)

    for got in (rewards.verdicts([said("1")] * 3, [WRONG] * 3), asyncio.run(inside())):
        assert [v.score for v in got] == [3.0, 3.0, 3.0]


def test_a_slow_batch_is_told_of_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    rewards = UserRewards({written(tmp_path, "def f(completion: str): return 1"): 1.0}, note=notes.append)
    rewards.verdicts([said("1")], [WRONG])
    monkeypatch.setattr(user_module, "SLOW", -1.0)
    for _ in range(2):
        rewards.verdicts([said("1")], [WRONG])
    assert len(notes) == 1 and "for 1 completions; nothing limits it" in notes[0]


HANGS = {
    "a sleep": "time.sleep(60)",
    "a loop": "while True: pass",
    "a pattern": "re.match('(a|aa)+$', 'a' * 60 + 'b')",
    "a lock": "threading.Event().wait()",
    "a process": "subprocess.run(['sleep', '60'])",
    "a socket": "socket.create_server(('127.0.0.1', 0)).accept()",
    "one that tries again": """
            for _ in range(3):
                try: time.sleep(60)
                except Exception: pass""",
    "one that catches all once": """
            try: time.sleep(60)
            except BaseException: time.sleep(60)""",
}
IMPORTS = "import asyncio, re, socket, subprocess, threading, time\n"
TIMED = {
    "one": """
def f(completion: str):
    if completion == 'odd':
        {}
    return 1.0
""",
    "all": """
def f(completions):
    for (c,) in completions:
        if c["content"] == 'odd':
            {}
    return [1.0] * len(completions)
""",
    "all, one after another": """
def f(completions):
    for (c,) in completions:
        if c["content"] == 'odd':
            {}
        yield 1.0
""",
}
ASYNCHRONOUS = """
async def f(completion: str):
    if completion == 'odd':
        {}
    return 1.0
"""


def timed(folder: Path, text: str, seconds: float | None = 0.2) -> UserRewards:
    return UserRewards({written(folder, IMPORTS + text): 1.0}, seconds=seconds)


@pytest.mark.parametrize("shape", TIMED)
@pytest.mark.parametrize("hang", HANGS)
def test_a_function_that_hangs_is_ended_and_its_completion_not_judged(tmp_path: Path, shape: str, hang: str) -> None:
    rewards = timed(tmp_path, TIMED[shape].replace("{}", HANGS[hang]))
    first, odd, last = rewards.verdicts([said("12"), said("odd"), said("12")], [WRONG] * 3)
    assert odd.kind is VerdictKind.infra_error
    assert odd.detail == "f: OverTime: took more than the 0.2 s of reward.seconds"
    judged = VerdictKind.infra_error if shape.startswith("all") else VerdictKind.wrong
    assert (first.kind, last.kind) == (judged, judged)
    assert [v.score for v in rewards.verdicts([said("12")] * 2, [WRONG] * 2)] == [1.0, 1.0]


SLOW_OBJECTS = """
class Slow(Exception):
    def __str__(self): time.sleep(60)
class Number(float):
    def __float__(self): time.sleep(60)
class Mapping(dict):
    def __getitem__(self, key): time.sleep(60)
"""


@pytest.mark.parametrize("body", ["raise Slow", "return Number(1)", "return Mapping(score=1)"])
def test_what_is_returned_may_take_no_longer_to_be_read(tmp_path: Path, body: str) -> None:
    rewards = timed(tmp_path, SLOW_OBJECTS + TIMED["one"].replace("{}", body))
    odd, last = rewards.verdicts([said("odd"), said("12")], [WRONG] * 2)
    assert (odd.kind, last.score) == (VerdictKind.infra_error, 1.0)


STUBBORN = {
    "one that catches every interrupt": """
            while True:
                try: time.sleep(60)
                except BaseException: pass""",
    "one that blocks all signals": "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()); time.sleep(60)",
}


@pytest.mark.parametrize("body", STUBBORN)
def test_one_that_cannot_be_ended_ends_the_process_with_a_line(tmp_path: Path, body: str) -> None:
    spec = written(tmp_path, IMPORTS + "import signal" + TIMED["one"].replace("{}", STUBBORN[body]))
    program = f"""
from rollwise.verify import time_limit
from rollwise.verify.user import UserRewards
from tests.test_rewards import WRONG, said
time_limit.AGAIN, time_limit.STUBBORN = 0.05, 3
UserRewards({{{spec!r}: 1.0}}, seconds=0.2).verdicts([said("odd")], [WRONG])
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    line = "rollwise: error: took more than the 0.2 s of reward.seconds, and cannot be interrupted; mend it\n"
    assert ended.stderr == line


def test_a_file_that_hangs_or_is_a_pipe_is_a_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"r\.py line 2: running it took more than the 0\.2 s of reward\.seconds"):
        timed(tmp_path, "time.sleep(60)")
    os.mkfifo(tmp_path / "pipe.py")
    with pytest.raises(UserError, match=r"pipe\.py: is no file"):
        UserRewards({f"{tmp_path / 'pipe.py'}:f": 1.0})


def test_scores_too_large_to_compute_with_are_none(train: Train, tmp_path: Path) -> None:
    turns = "import itertools\nturn = itertools.cycle([1e308, 1.0, -1e160, 0.0])\n"
    text = turns + "def f(completion: str): return next(turn)"
    done = train("grpo", {"budget.steps": 2, "reward.function": written(tmp_path, text)})
    assert set(done.metric("verifier/infra_error")) == {0.5}
    assert done.stop["reason"] == "budget.steps"


def test_a_coroutine_that_hangs_is_ended(tmp_path: Path) -> None:
    rewards = timed(tmp_path, ASYNCHRONOUS.replace("{}", "await asyncio.sleep(60)"))
    first, odd, last = rewards.verdicts([said("12"), said("odd"), said("12")], [WRONG] * 3)
    assert odd.detail == "f: OverTime: took more than the 0.2 s of reward.seconds"
    assert (first.score, last.score) == (1.0, 1.0)


def test_a_function_that_hangs_is_ended_in_any_thread(tmp_path: Path) -> None:
    rewards = timed(tmp_path, TIMED["one"].replace("{}", HANGS["a sleep"]))
    got: list[Verdict] = []
    thread = threading.Thread(target=lambda: got.extend(rewards.verdicts([said("odd"), said("12")], [WRONG] * 2)))
    thread.start()
    thread.join()
    assert [v.kind for v in got] == [VerdictKind.infra_error, VerdictKind.wrong]


def test_a_function_that_always_hangs_is_not_called_for_ever(tmp_path: Path) -> None:
    rewards = timed(tmp_path, TIMED["one"].replace("{}", HANGS["a sleep"]))
    details = [v.detail for v in rewards.verdicts([said("odd")] * 6, [WRONG] * 6)]
    assert details[:3] == ["f: OverTime: took more than the 0.2 s of reward.seconds"] * 3
    assert details[3:] == ["f: OverTime: not called: 3 before it took more than reward.seconds"] * 3


def test_a_coroutine_that_blocks_its_loop_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reward_value, "GRACE", 0.1)
    rewards = timed(tmp_path, ASYNCHRONOUS.replace("{}", "time.sleep(3)"))
    got = rewards.verdicts([said("odd"), said("12")], [WRONG] * 2)
    assert {v.detail for v in got} == {"f: OverTime: blocked the event loop past reward.seconds"}
    assert rewards.verdicts([said("12")], [WRONG])[0].score == 1.0


def test_signals_of_the_users_own_and_errors_pass_the_limit(tmp_path: Path) -> None:
    """A function may use an alarm, as some checkers do, and the handlers are those of before."""
    text = (
        "import signal\n"
        "def raising(*_): raise ValueError('alarm')\n"
        "def f(completion: str):\n"
        "    signal.signal(signal.SIGALRM, raising)\n"
        "    signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
        "    time.sleep(10)\n"
    )
    before = [signal.getsignal(s) for s in (signal.SIGURG, signal.SIGINT)]
    verdict = timed(tmp_path, text, 5.0).verdicts([said("12")], [WRONG])[0]
    assert verdict.detail == "f: ValueError: alarm"
    assert before == [signal.getsignal(s) for s in (signal.SIGURG, signal.SIGINT)]


def test_files_beside_it_can_be_imported_and_what_it_prints_is_not_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "beside_the_reward.py").write_text("VALUE = 0.25")
    text = "from beside_the_reward import VALUE\ndef f(completion: str):\n    print('chatty')\n    return VALUE"
    assert scored(tmp_path, text, [RIGHT])[0].score == 0.25
    assert capsys.readouterr() == ("", "chatty\n")


def test_a_recipe_s_functions_reach_every_data_set(tmp_path: Path) -> None:
    spec = written(tmp_path, "def f(completion: str): return 7")
    tree = {"budget": {"steps": 1}, "tasks": {"sort_digits": {}, "chain_sum": {}}, "reward": {"functions": {spec: 2.0}}}
    config = resolve([("f", tree)])
    assert to_tree(config)["reward"]["functions"] == {spec: 2.0}
    for task in load_tasks(config).values():
        assert [v.score for v in task.judge([Completion(prompt=task.heldout[0], text="1")])] == [14.0]
