"""What goes wrong around a run, through the real commands: it goes on from what is whole, or one line says why not."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rollwise import checkpoint, folder, run
from rollwise.assemble import resolve
from rollwise.cli.main import main
from rollwise.config import merge
from rollwise.console import Console
from rollwise.errors import UserError
from tests.conftest import SMALL, Finished
from tests.models import tiny_model

Train = Callable[..., Any]
ROOT = Path(__file__).parents[1]
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run of four steps with a checkpoint after each second one."""
    output = tmp_path_factory.mktemp("saved") / "run"
    more = {"method": "popo", "output": str(output), "checkpoint": {"every": 2, "keep": 9}}
    run.start(resolve([("test", merge(SMALL, more))]), Console())
    return Finished(output)


def rehashed(path: Path, name: str, content: bytes) -> None:
    """Other content under a manifest that is right for it: what hashes cannot see."""
    (path / name).write_bytes(content)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (path / "manifest.json").write_text(json.dumps(manifest, indent=1))


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 1
    file.write_bytes(data)


def escape(path: Path) -> None:
    content = (path / "state.json").read_bytes()
    (path.parent.parent / "elsewhere.json").write_bytes(content)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"]["../../elsewhere.json"] = manifest["files"]["state.json"]
    (path / "manifest.json").write_text(json.dumps(manifest, indent=1))


def pipe(file: Path) -> None:
    file.unlink(missing_ok=True)
    os.mkfifo(file)


PICKLE = b"cos\nsystem\n(S'touch ran'\ntR."
DAMAGE: dict[str, Callable[[Path], Any]] = {
    "flipped byte of the state": lambda p: flip(p / "state.json"),
    "flipped byte of the weights": lambda p: flip(p / "model" / "model.safetensors"),
    "flipped byte of the manifest": lambda p: flip(p / "manifest.json"),
    "truncated": lambda p: os.truncate(p / "arrays.safetensors", 100),
    "missing": lambda p: (p / "model" / "config.json").unlink(),
    "extra": lambda p: (p / "model" / "modeling.py").write_text("raise SystemExit"),
    "an extra pickle": lambda p: (p / "model" / "pytorch_model.bin").write_bytes(PICKLE),
    "an extra pipe": lambda p: pipe(p / "model" / "pipe"),
    "a pipe for a manifest": lambda p: pipe(p / "manifest.json"),
    "an escaping path": escape,
    "a pickle for arrays, hashed": lambda p: rehashed(p, "arrays.safetensors", PICKLE),
    "a header bomb, hashed": lambda p: rehashed(p, "arrays.safetensors", (2**60).to_bytes(8, "little") + b"{}"),
    "nested without end, hashed": lambda p: rehashed(p, "state.json", b"[" * 200_000),
    "another kind of state, hashed": lambda p: rehashed(p, "state.json", b"[1, 2]"),
    "no UTF-8, hashed": lambda p: rehashed(p, "state.json", b'{"loop": "\xff"}'),
}


@pytest.mark.parametrize("kind", list(DAMAGE))
def test_resume_takes_the_checkpoint_before_a_damaged_one(
    saved: Finished, kind: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(saved.folder, copy)
    DAMAGE[kind](copy / "checkpoints" / "step_4")
    assert main(["resume", str(copy)]) == 0
    out = capsys.readouterr().out
    assert out.count("step_4 refused: ") == 1 and "at step 2" in out
    again = Finished(copy)
    assert again.weights() == saved.weights() and again.bytes == saved.bytes
    assert not (tmp_path / "ran").exists()


def test_a_damaged_model_named_by_hand_runs_nothing(saved: Finished, tmp_path: Path, capsys: Any) -> None:
    """A model folder that holds a pickle in place of its weights."""
    model = tmp_path / "model"
    shutil.copytree(saved.folder / "checkpoints" / "step_4" / "model", model)
    (model / "model.safetensors").unlink()
    (model / "pytorch_model.bin").write_bytes(PICKLE.replace(b"ran", os.fsencode(tmp_path / "ran")))
    assert main(["eval", str(model), "--prompts", "2"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "ran").exists()


def copied(saved: Finished, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved.folder, tmp_path / "copy"))


def refused(argv: list[str], capsys: Any) -> str:
    capsys.readouterr()
    assert main(argv) == 2
    err: str = capsys.readouterr().err
    assert err.count("\n") == 1
    return err


def test_steps_whose_checkpoints_are_gone_are_not_written_over(saved: Finished, tmp_path: Path, capsys: Any) -> None:
    """Begun again is only what never had one."""
    copy = copied(saved, tmp_path)
    shutil.rmtree(copy / "checkpoints")
    assert "its 4 steps had checkpoints every 2, and none is there" in refused(["resume", str(copy)], capsys)
    (copy / "checkpoints").write_text("")
    assert "is no folder" in refused(["resume", str(copy)], capsys)
    (copy / "checkpoints").unlink()
    assert Finished(copy).bytes == saved.bytes
    lines = saved.bytes.splitlines(keepends=True)
    (copy / "events.jsonl").write_bytes(b"".join(lines[:3]) + lines[3][:30])  # killed before the first save
    assert main(["resume", str(copy), "--quiet"]) == 0
    assert Finished(copy).bytes == saved.bytes


def test_settings_are_written_whole_or_not_at_all(saved: Finished, tmp_path: Path, monkeypatch: Any) -> None:
    copy = copied(saved, tmp_path)
    before = (copy / "config.yaml").read_bytes()

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", killed)
    assert main(["resume", str(copy), "--set", "budget.steps=5", "--quiet"]) == 130
    assert (copy / "config.yaml").read_bytes() == before
    monkeypatch.undo()
    assert main(["resume", str(copy), "--set", "budget.steps=5", "--quiet"]) == 0
    assert Finished(copy).stop["step"] == 5 and b"steps: 5" in (copy / "config.yaml").read_bytes()
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    (fresh / folder.PART).write_text("half")
    (fresh / folder.LOCK).write_text("")
    folder.check_free(fresh)


@pytest.mark.parametrize("name", ["clock.jsonl", ".lock"])
def test_a_pipe_in_a_log_s_place_is_one_line_and_no_wait(
    saved: Finished, tmp_path: Path, name: str, capsys: Any
) -> None:
    copy = copied(saved, tmp_path)
    pipe(copy / name)
    assert name in refused(["resume", str(copy)], capsys)


@pytest.mark.parametrize("where", ["/proc/rollwise-run", "/dev/null/run", "file", "file/below"])
def test_a_place_that_nobody_can_write_is_one_line(tmp_path: Path, where: str, capsys: Any) -> None:
    """Not even the superuser."""
    (tmp_path / "file").write_text("mine")
    output = where if where.startswith("/") else str(tmp_path / where)
    err = refused(["train", "--output", output, "--set", "budget.steps=1", "--set", "eval.prompts=2"], capsys)
    assert "output: " in err and ("cannot be written" in err or "is in use" in err)
    assert (tmp_path / "file").read_text() == "mine"


ARGV = ["train", "--set", "budget.steps=1", "--set", "eval.prompts=2", "--set", "prompts_per_step=4", "--quiet"]


def test_two_runs_are_never_in_one_folder(
    saved: Finished, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with folder.lock(saved.folder):
        assert "is being written by another run" in refused(["resume", str(saved.folder)], capsys)
    taken = tmp_path / "taken"
    taken.mkdir()
    with folder.lock(taken):  # by one that has written nothing yet
        assert "is being written by another run" in refused([*ARGV, "--output", str(taken)], capsys)
    from rollwise import assemble

    monkeypatch.chdir(tmp_path)
    began: list[int] = []

    def slow(config: Any, path: Any = None) -> Any:
        began.append(1)
        if len(began) == 1:  # a second run of the default name begins, and ends, while this one loads its model
            assert main(ARGV) == 0
            (tmp_path / "runs" / "sort_digits-popo-seed0-2").mkdir()
            held.append(folder.lock(tmp_path / "runs" / "sort_digits-popo-seed0-2"))  # and a third is about to
        return assemble.load_model(config, path)

    held: list[Any] = []
    monkeypatch.setattr(run, "load_model", slow)
    assert main(ARGV) == 0
    held[0].close()
    names = [p.name for p in sorted((tmp_path / "runs").iterdir())]
    assert names == ["sort_digits-popo-seed0", "sort_digits-popo-seed0-2", "sort_digits-popo-seed0-3"]
    for name in (names[0], names[2]):
        done = Finished(tmp_path / "runs" / name)
        assert done.stop["step"] == 1 and f"output: {done.folder}\n" in (done.folder / "config.yaml").read_text()


def test_runs_do_not_ask_what_time_it_is(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that jumps by years, back and forth, ends no budget and changes no event."""
    settings = {"budget.steps": 4, "budget.seconds": 1e5, "eval.seconds": 1e5, "checkpoint.every": 2}
    plain = train("popo", settings, name="plain")
    rng, asked = random.Random(1), []

    def jumping() -> float:
        asked.append(1)
        return rng.uniform(-1e9, 4e9)

    monkeypatch.setattr(time, "time", jumping)
    monkeypatch.setattr(time, "time_ns", lambda: int(jumping() * 1e9))
    jumpy = train("popo", settings, name="jumpy")
    assert jumpy.bytes == plain.bytes and jumpy.weights() == plain.weights()
    time.time()
    assert asked
    names = {"time.time(", "time.time_ns", "datetime.now", "utcnow", "date.today", "localtime", "gmtime", "st_mtime)"}
    for path in (ROOT / "src" / "rollwise").rglob("*.py"):
        found = [n for n in names if n in path.read_text()]
        assert not found, f"{path.name} asks for the time of day: {found}"


def spoil(run: folder.RunFolder) -> None:
    with torch.no_grad():
        next(iter(run.loop.learner.policy.model.parameters())).fill_(float("nan"))  # type: ignore[attr-defined]


SPOILT = {"checkpoint.every": 1, "checkpoint.keep": 1, "checkpoint.best": "accuracy", "eval.every": 1}


@pytest.mark.parametrize("method", ["popo", "pilot-commit", "arpo"])
def test_weights_that_are_spoilt_take_no_place_of_sound_ones(
    train: Train, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Found before they are saved, or, where they are spoilt after that, by their log-probs."""
    step, save = folder.RunFolder.step, folder.RunFolder.checkpoint

    def after_a_step(self: folder.RunFolder, record: Any, *rest: Any) -> None:
        step(self, record, *rest)
        if record.step == 3:
            spoil(self)

    def after_a_save(self: folder.RunFolder, at: int) -> None:
        save(self, at)
        if at == 2:
            spoil(self)

    sound = train(method, {**SPOILT, "budget.steps": 2}, name="sound")
    with monkeypatch.context() as patch:
        patch.setattr(folder.RunFolder, "step", after_a_step)
        patch.setattr(folder.RunFolder, "evaluated", lambda *_: None)  # with them nothing can be said
        with pytest.raises(UserError, match="the weights after step 3 are not finite and are not saved; go on from"):
            train(method, {**SPOILT, "budget.steps": 6}, name="unsaved")
        patch.undo()
        patch.setattr(folder.RunFolder, "checkpoint", after_a_save)
        spoilt = train(method, {**SPOILT, "budget.steps": 6}, name="spoilt")
    assert (spoilt.stop["reason"], spoilt.stop["step"]) == ("non_finite", 3)
    for name in ("unsaved", "spoilt"):
        kept = sound.folder.with_name(name) / "checkpoints" / "step_2"
        assert checkpoint.steps(kept.parent)[-1] == 2 and checkpoint.verify(kept) is None
        assert (kept / "model" / "model.safetensors").read_bytes() == sound.weights()


FULL = """
import resource, signal, sys
from rollwise.cli import main
from rollwise.folder import RunFolder
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
step = RunFolder.step

def full(self, record, groups, seconds):
    if record.step == 3:
        most = self.events.mark.bytes + 700
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    step(self, record, groups, seconds)

RunFolder.step = full
raise SystemExit(main(sys.argv[1:]))
"""


def test_a_disk_that_is_full_within_an_event_is_one_line_and_the_run_goes_on(saved: Finished, tmp_path: Path) -> None:
    copy = tmp_path / "full"
    recipe = tmp_path / "r.yaml"
    recipe.write_text(json.dumps(merge(SMALL, {"method": "popo", "checkpoint": {"every": 2, "keep": 9}})))
    argv = [sys.executable, "-c", FULL, "train", str(recipe), "--output", str(copy), "--quiet"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=ENV)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "events.jsonl: File too large" in done.stderr
    assert not (copy / "events.jsonl").read_bytes().endswith(b"\n"), "the event is torn"
    assert checkpoint.steps(copy / "checkpoints") == [2]
    assert main(["resume", str(copy), "--quiet"]) == 0
    assert Finished(copy).bytes == saved.bytes and Finished(copy).weights() == saved.weights()


@pytest.mark.parametrize("says", ["nothing but the end", "no end ever", "no text"])
@pytest.mark.parametrize("method", ["grpo", "dapo", "popo", "pilot-commit"])
def test_a_model_that_says_nothing_of_use_ends_with_that_reason(
    train: Train, monkeypatch: pytest.MonkeyPatch, says: str, method: str
) -> None:
    """Only the end token, never the end token, or bytes that are no text."""
    from rollwise.sampling import torch_sampler

    def choose(logits: torch.Tensor, uniform: torch.Tensor, sampling: Any) -> Any:
        eos = int(kept["eos"])
        if says == "nothing but the end":
            token = torch.full((len(logits),), eos)
        else:
            token = (uniform * logits.shape[1]).long().to(logits.device)
            token[token == eos] = eos + 1 if says == "no end ever" else 0
        return token, torch.log_softmax(logits, dim=-1).gather(1, token[:, None])[:, 0]

    kept: dict[str, Any] = {}
    original = torch_sampler.TorchSampler._draw

    def draw(self: Any, *args: Any) -> Any:
        kept["eos"] = self.policy.eos_ids[0]
        return original(self, *args)

    monkeypatch.setattr(torch_sampler.TorchSampler, "_draw", draw)
    monkeypatch.setattr(torch_sampler, "choose", choose)
    if says == "no text":
        from rollwise.policy import Policy

        monkeypatch.setattr(Policy, "decode", lambda self, many: ["\ufffd\x00\ud800" * 5 for _ in many])
    settings = {
        "guard.idle_steps": 4,
        "budget.steps": 40,
        "sampling.max_completion_length": 12,
        "task_args.min_digits": 4,
    }
    rounds = {"allocation.max_rounds": 3} if method in ("dapo", "pilot-commit") else {}
    done = train(method, {**settings, **rounds, "log.rollouts": True})
    assert done.stop["reason"] == "dead" and done.stop["step"] == 4, done.stop
    assert max(done.metric("rounds")) <= 3
    stops = {r["stop"] for g in done.groups() for r in g["rollouts"]}
    assert stops == ({"eos"} if says == "nothing but the end" else {"length"})


def test_half_a_surrogate_pair_in_a_reason_is_logged(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a reward function's error may hold: no UTF-8 can."""
    from rollwise.tasks.sort_digits import SortDigits

    def verify(*_: Any) -> Any:
        raise ValueError("half \ud800 a pair")

    monkeypatch.setattr(SortDigits, "verify", verify)
    done = train("grpo", {"budget.steps": 1, "log.rollouts": True})
    assert "half \ud800 a pair" in done.steps[0]["notes"][0]
    assert "half \ud800 a pair" in done.groups()[0]["rollouts"][0]["verdict"]["detail"]


def test_a_verifier_process_that_dies_costs_its_verdicts_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two answers in five end the process that looks at them, each time."""
    from rollwise.verify import workers
    from rollwise.verify.mathematics import Math

    asked: list[str] = []

    def cheap(self: Math, completion: Any) -> Any:
        asked.append(completion.text)
        return ("die", f"{len(asked)}") if len(asked) % 5 < 2 else (str(len(asked)), str(len(asked) // 2 * 2))

    monkeypatch.setattr(Math, "cheap", cheap)
    monkeypatch.setattr(workers, "MODULE", "stand_in_worker")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "stand_in"))
    pool = workers.Pool(size=2)
    monkeypatch.setattr(workers, "pool", lambda: pool)
    monkeypatch.setattr(workers, "installed", lambda: True)
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"question": f"{i}+1=", "answer": str(i + 1)}) + "\n" for i in range(40)))
    small = merge(SMALL, {"task": "math", "task_args": {"data": str(rows), "template": "base"}, "budget": {"steps": 2}})
    more = {"output": str(tmp_path / "run"), "method": "popo", "sampling": {"max_completion_length": 8}}
    small["task_args"].pop("max_digits")
    monkeypatch.setattr(run, "check_golds", lambda task: "")
    model = tiny_model(tmp_path / "model", "Qwen3")
    try:
        run.start(resolve([("test", merge(small, {**more, "model": str(model)}))]), Console())
    finally:
        pool.close()
    done = Finished(tmp_path / "run")
    assert done.stop["reason"] == "budget.steps" and done.stop["step"] == 2
    assert done.metric("verifier/infra_error") == pytest.approx([0.4, 0.4], abs=0.05) and pool.started > 10
