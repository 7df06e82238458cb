"""Reward functions that break what they are given, or return what cannot be looked at: one verdict each, no more."""

from __future__ import annotations

import asyncio
import copy
import sys
from pathlib import Path
from typing import Any

import pytest

from rollwise.cli.main import main
from rollwise.records import Prompt, Verdict, VerdictKind
from rollwise.verify.scoring import Completion
from rollwise.verify.user import UserRewards

WRONG = Verdict(kind=VerdictKind.wrong, score=0.0)
HEAD = """
import asyncio
from rollwise.records import Verdict, VerdictKind

class Mute(Exception):
    def __str__(self): raise RuntimeError
class Key:
    def __str__(self): raise SystemExit
class Item:
    def item(self): raise SystemExit
class Real(float):
    def __float__(self): raise SystemExit
class Shy:
    def __repr__(self): raise GeneratorExit
class Liar:
    @property
    def __class__(self): raise SystemExit
class Mine(Verdict):
    def __getattribute__(self, name): raise SystemExit
class Base(BaseException): pass
class Rows(list):
    def __iter__(self): raise asyncio.CancelledError

def thrown(error): raise error

def odd():
    {}
"""
SHAPES = {
    "one": "def f(completion: str):\n    return odd() if completion == 'odd' else 1.0\n",
    "one, asynchronous": "async def f(completion: str):\n    return odd() if completion == 'odd' else 1.0\n",
    "all": "def f(completions, **_):\n    return [odd() if c == 'odd' else 1.0 for c in completions]\n",
}
RAISING = [
    "raise asyncio.CancelledError",
    "raise Mute",
    "raise GeneratorExit",
    "raise Base('x')",
    "raise SystemExit(Key())",
]
RETURNED = [
    "return Verdict(kind=VerdictKind.correct, score=None)",
    "return Verdict(kind=VerdictKind.correct, score='x')",
    "return Verdict(kind=VerdictKind.correct, score=float('nan'))",
    "return Verdict(kind=VerdictKind.correct, score=10**400)",
    "return Verdict(kind=None, score=1.0)",
    "return Verdict(kind=Shy(), score=1.0)",
    "return Verdict(kind=VerdictKind.infra_error, score=None, detail=None)",
    "return Mine(kind=VerdictKind.correct, score=1.0)",
    "return {Key(): 1.0}",
    "return {'score': Shy()}",
    "return Item()",
    "return Real(1.0)",
    "return Shy()",
    "return Liar()",
    "return Mute()",
    "return SystemExit(Key())",
]


def said(text: str, answer: Any = "12", **meta: Any) -> Completion:
    return Completion(prompt=Prompt(uid="u", text="21=", answer=answer, task="t", meta=meta), text=text)


def rewards(folder: Path, text: str) -> UserRewards:
    (folder / "r.py").write_text(text)
    return UserRewards({f"{folder / 'r.py'}:f": 1.0})


@pytest.mark.parametrize("shape", SHAPES)
def test_what_cannot_be_read_costs_that_one_only(tmp_path: Path, shape: str) -> None:
    for body in RETURNED + (RAISING if shape != "all" else []):
        made = rewards(tmp_path, HEAD.replace("{}", body) + SHAPES[shape])
        odd, plain = made.verdicts([said("odd"), said("12")], [WRONG, WRONG])
        assert odd.kind is VerdictKind.infra_error and isinstance(odd.detail, str), (body, odd)
        assert (plain.kind, plain.score) == (VerdictKind.wrong, 1.0), (body, plain)
        assert set(made.take().values()) == {1.0}


@pytest.mark.parametrize("body", [*RAISING, "return Rows([1.0])", "return Shy()", "return Liar()", "return {Key(): 1}"])
def test_a_function_of_all_that_fails_leaves_all_unjudged(tmp_path: Path, body: str) -> None:
    made = rewards(tmp_path, HEAD.replace("{}", body) + "def f(completions):\n    return odd()\n")
    found = made.verdicts([said("1"), said("2")], [WRONG, WRONG])
    assert [v.kind for v in found] == [VerdictKind.infra_error] * 2


def test_a_verdict_that_can_be_read_is_made_sound(tmp_path: Path) -> None:
    text = HEAD.replace("{}", "pass") + "def f(completion: str):\n    return Verdict(kind='correct', score=True)\n"
    (found,) = rewards(tmp_path, text).verdicts([said("1")], [WRONG])
    assert found.kind is VerdictKind.correct and type(found.score) is float and type(found) is Verdict


ENDINGS = [
    "raise KeyboardInterrupt",
    "asyncio.get_running_loop().stop()\n    await asyncio.sleep(0.01)\n    raise ValueError",
    "await asyncio.create_task(interrupt())",
    "[t.cancel() for t in asyncio.all_tasks()]\n    await asyncio.sleep(0.01)",
    "asyncio.get_running_loop().call_soon(exit)\n    await asyncio.sleep(0.01)\n    raise ValueError",
]


@pytest.mark.parametrize("body", ENDINGS)
def test_an_asynchronous_function_cannot_end_the_loop_it_runs_in(tmp_path: Path, body: str) -> None:
    text = f"import asyncio\nasync def interrupt():\n    raise KeyboardInterrupt\nasync def odd():\n    {body}\n"
    text += "async def f(completion: str):\n    return await odd() if completion == 'odd' else 1.0\n"
    made, before = rewards(tmp_path, text), sys.stdout
    assert made.verdicts([said("odd")], [WRONG])[0].kind is VerdictKind.infra_error
    assert made.verdicts([said("12")], [WRONG])[0].score == 1.0
    assert sys.stdout is before


def test_an_interrupt_of_the_users_is_one(tmp_path: Path) -> None:
    made, before = rewards(tmp_path, "def f(completion: str):\n    raise KeyboardInterrupt\n"), sys.stdout
    with pytest.raises(KeyboardInterrupt):
        made.verdicts([said("12")], [WRONG])
    assert sys.stdout is before


SPOILERS = [
    "def f(completions, answer, numbers, levels, prompts, **columns):\n"
    "    for a in answer + columns['solution'] + columns['ground_truth']: a['numbers'].clear()\n"
    "    for n in numbers + levels: n.clear()\n"
    "    for p in prompts: p[0]['content'][0].clear()\n"
    "    return [0.0] * len(completions)\n",
    "def f(solution_str, ground_truth, extra_info):\n"
    "    ground_truth['numbers'].clear(); extra_info['levels'].clear(); return 0\n",
    "def f(completion, answer, state, prompt, info):\n"
    "    answer['numbers'].clear(); state['info']['levels'].clear(); prompt[0]['content'][0].clear(); return 0\n",
    "def f(completion: str, answer, *, prompt, meta):\n"
    "    answer['numbers'].clear(); meta['levels'].clear(); prompt[0]['content'][0].clear(); return 0\n",
]


@pytest.mark.parametrize("text", SPOILERS)
def test_what_a_function_does_to_its_arguments_reaches_nobody(tmp_path: Path, text: str) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "Make 5."}]}]
    prompt = Prompt(uid="u", messages=messages, answer={"numbers": [2, 3], "target": 5}, meta={"levels": [[1]]})
    before, members = copy.deepcopy(prompt), [Completion(prompt=prompt, text="2+3")] * 2
    found = rewards(tmp_path, text).verdicts(members, [WRONG] * 2)
    assert [v.score for v in found] == [0.0, 0.0]  # the second member saw what the first had not spoilt
    assert prompt == before


def test_one_that_leaves_the_folder_takes_nothing_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run's own folder was named by the way from where it was started."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.py").write_text(
        "import os\ndef f(completion: str):\n    os.chdir('/')\n    return len(completion)\n"
    )
    argv = ["train", "--output", "run", "--method", "grpo", "--set", "reward=r.py:f", "--set", "budget.steps=1"]
    for setting in ("prompts_per_step=2", "group_size=2", "eval.prompts=2", "eval.every=1"):
        argv += ["--set", setting]
    assert main(argv) == 0, capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert (tmp_path / "run" / "report.html").is_file()
    (tmp_path / "run" / "report.html").unlink()
    assert main(["resume", "run", "--set", "budget.steps=2"]) == 0, capsys.readouterr().err
    assert (tmp_path / "run" / "report.html").is_file() and (tmp_path / "run" / "checkpoints" / "step_2").is_dir()


def test_under_a_running_loop(tmp_path: Path) -> None:
    made = rewards(tmp_path, "import asyncio\nasync def f(completion: str):\n    raise asyncio.CancelledError\n")

    async def inside() -> list[Verdict]:
        return made.verdicts([said("1")], [WRONG])

    assert asyncio.run(inside())[0].kind is VerdictKind.infra_error
