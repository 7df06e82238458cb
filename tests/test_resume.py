"""Checkpoints and resuming: the same bytes as a run that was never stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollwise import checkpoint, folder, run
from rollwise.assemble import resolve
from rollwise.config import build, merge, nest
from rollwise.console import Console
from rollwise.errors import UserError
from rollwise.methods import method_names
from tests.conftest import Finished, acting

Train = Callable[..., Any]


def again(folder: Path, **budget: Any) -> Finished:
    """Resume with other settings (`__` for the dot)."""

    def changes(stored: dict[str, Any]) -> Any:
        tree = stored
        for name, value in budget.items():
            tree = merge(tree, nest(name.replace("__", "."), value))
        return build(tree)

    run.resume(folder, changes, Console())
    return Finished(folder)


def without_settings(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Steps, evaluations and the end: what must not depend on where the run was cut."""
    return [e for e in events if e["event"] in ("step", "eval", "stop")]


@pytest.mark.parametrize("method", method_names())
def test_a_run_stopped_and_resumed_is_the_run_never_stopped(train: Train, method: str) -> None:
    more = {"eval.every": 2, "log.rollouts": True, **acting(method)}
    whole = train(method, {**more, "budget.steps": 6}, name="whole")
    train(method, {**more, "budget.steps": 3}, name="cut")
    cut = again(whole.folder.parent / "cut", budget__steps=6)
    assert without_settings(cut.events) == without_settings(whole.events)
    assert cut.weights() == whole.weights()
    assert (cut.folder / "rollouts.jsonl").read_bytes() == (whole.folder / "rollouts.jsonl").read_bytes()
    states = [checkpoint.load(r.folder / "checkpoints" / "step_6") for r in (cut, whole)]
    for state in states:
        state["loop"].pop("seconds")
        state.pop("logs")
    assert same(*states)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return bool(a == b)


@pytest.mark.parametrize("part", ["curriculum", "replay", "learner"])
def test_a_part_that_is_not_restored_would_be_seen(train: Train, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train("popo", {"budget.steps": 5}, name="whole")
    train("popo", {"budget.steps": 3}, name="cut")
    from rollwise.curriculum.uniform import Uniform
    from rollwise.learner.learner import Learner
    from rollwise.replay.recent import RecentGroups

    owner = {"curriculum": Uniform, "replay": RecentGroups, "learner": Learner}[part]
    monkeypatch.setattr(owner, "load_state_dict", lambda self, state: None)
    if part == "learner":
        with pytest.raises(UserError, match="state of ledger: its updates are not those of the learner"):
            again(whole.folder.parent / "cut", budget__steps=5)
        return
    cut = again(whole.folder.parent / "cut", budget__steps=5)
    assert cut.weights() != whole.weights()


def test_resume_after_a_kill_goes_on_from_the_last_checkpoint(train: Train, tmp_path: Path) -> None:
    """Later lines than the checkpoint's, and a torn one, are dropped and written again."""
    whole = train("popo", {"budget.steps": 6}, name="whole")
    killed = train("popo", {"budget.steps": 6, "checkpoint.every": 2, "checkpoint.keep": 9}, name="killed")
    shutil.rmtree(killed.folder / "checkpoints" / "step_6")
    lines = killed.bytes.splitlines(keepends=True)
    (killed.folder / "events.jsonl").write_bytes(b"".join(lines[:-2]) + b'{"event":"step","st')
    resumed = again(killed.folder)
    assert without_settings(resumed.events) == without_settings(whole.events)
    assert resumed.weights() == whole.weights()


def test_resume_before_the_first_checkpoint_begins_again(train: Train) -> None:
    whole = train("popo", {"budget.steps": 4}, name="whole")
    killed = train("popo", {"budget.steps": 4}, name="killed")
    shutil.rmtree(killed.folder / "checkpoints")
    (killed.folder / "events.jsonl").write_bytes(killed.bytes[:-40])
    resumed = again(killed.folder)
    assert resumed.bytes == whole.bytes and resumed.weights() == whole.weights()


def test_a_damaged_checkpoint_is_refused_and_the_one_before_used(train: Train, capsys: Any) -> None:
    whole = train("popo", {"budget.steps": 6}, name="whole")
    hurt = train("popo", {"budget.steps": 6, "checkpoint.every": 2}, name="hurt")
    victim = hurt.folder / "checkpoints" / "step_6" / "model" / "model.safetensors"
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    path, refused = checkpoint.newest(hurt.folder / "checkpoints")
    assert path.name == "step_4" and "model.safetensors has another content" in refused[0]
    resumed = again(hurt.folder)
    assert resumed.weights() == whole.weights()


def damage(kind: str, folder: Path) -> None:
    manifest = folder / "manifest.json"
    if kind == "truncated":
        (folder / "arrays.safetensors").write_bytes((folder / "arrays.safetensors").read_bytes()[:-1])
    elif kind == "missing":
        (folder / "state.json").unlink()
    elif kind == "extra":
        (folder / "model" / "evil.py").write_text("raise SystemExit")
    elif kind == "no manifest":
        manifest.unlink()
    elif kind == "bad manifest":
        manifest.write_text("[" * 100_000)
    elif kind == "escaping":
        tree = json.loads(manifest.read_text())
        tree["files"]["../../config.yaml"] = tree["files"].pop("state.json")
        manifest.write_text(json.dumps(tree))
    elif kind == "renamed":
        folder.rename(folder.parent / "step_99")
    elif kind == "link":
        target = folder / "state.json"
        moved = folder.parent / "state.json"
        target.rename(moved)
        target.symlink_to(moved)


KINDS = ["truncated", "missing", "extra", "no manifest", "bad manifest", "escaping", "renamed", "link"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_usable_checkpoint_is_one_line(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "checkpoints"

    def model(path: Path) -> None:
        path.mkdir()
        (path / "config.json").write_text("{}")

    saved = checkpoint.save(folder, 3, {"a": np.arange(5), "b": [1, {"c": None}]}, model, keep=2)
    assert same(checkpoint.load(saved), {"a": np.arange(5), "b": [1, {"c": None}]})
    damage(kind, saved)
    with pytest.raises(UserError, match="no usable checkpoint") as error:
        checkpoint.newest(folder)
    assert "\n" not in str(error.value)


def test_every_flipped_byte_is_detected(tmp_path: Path) -> None:
    def model(path: Path) -> None:
        path.mkdir()
        (path / "config.json").write_text("{}")

    saved = checkpoint.save(tmp_path, 1, {"a": np.arange(3), "b": 1}, model, keep=1)
    assert checkpoint.verify(saved) is None
    for file in sorted(p for p in saved.rglob("*") if p.is_file() and p.name != "manifest.json"):
        data = file.read_bytes()
        for i in range(len(data)):
            file.write_bytes(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :])
            assert checkpoint.verify(saved) is not None, f"{file.name} byte {i}"
        file.write_bytes(data)
    assert checkpoint.verify(saved) is None


def test_old_checkpoints_are_dropped_and_a_failed_save_leaves_no_trace(tmp_path: Path) -> None:
    def model(path: Path) -> None:
        path.mkdir()

    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    for step in (1, 2, 3):
        checkpoint.save(tmp_path, step, {"n": step}, model, keep=2)
    assert checkpoint.steps(tmp_path) == [2, 3]
    with pytest.raises(OSError):
        checkpoint.save(tmp_path, 4, {"n": 4}, full, keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step_2", "step_3"]
    checkpoint.save(tmp_path, 3, {"n": 33}, model, keep=2)
    assert checkpoint.load(tmp_path / "step_3") == {"n": 33}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step_2", "step_3"]


@pytest.mark.parametrize(
    "change,words",
    [
        ({"learner__lr": 1e-3}, "learner.lr was 0.0002 and would be 0.001"),
        ({"seed": 5}, "seed was 0 and would be 5"),
        ({"task_args": {"max_digits": 9}}, "task_args was"),
    ],
)
def test_resume_with_other_settings_is_refused(train: Train, change: dict[str, Any], words: str) -> None:
    done = train("grpo", {"budget.steps": 2})
    with pytest.raises(UserError, match="a resumed run keeps its settings") as error:
        again(done.folder, **change)
    assert words in str(error.value)
    assert Finished(done.folder).bytes == done.bytes, "nothing was touched"


@pytest.mark.parametrize("file,missing", [("events.jsonl", 1), ("events.jsonl", None), ("rollouts.jsonl", 1)])
def test_logs_shorter_than_their_checkpoint_send_it_back_to_an_older_one(train: Train, file: str, missing: Any) -> None:
    settings = {"budget.steps": 4, "checkpoint.every": 2, "log.rollouts": True}
    whole = train("popo", settings, name="whole")
    cut = train("popo", settings, name="cut")
    logs = {n: checkpoint.load(cut.folder / "checkpoints" / n)["logs"] for n in ("step_2", "step_4")}
    name = file.split(".")[0]
    path = cut.folder / file
    if missing is None:
        path.unlink()
        with pytest.raises(UserError, match=r"no usable checkpoint \(step_4 refused: events.jsonl is shorter"):
            again(cut.folder)
        return
    path.write_bytes(path.read_bytes()[: logs["step_4"][name]["bytes"] - missing])
    resumed = again(cut.folder)
    assert resumed.weights() == whole.weights()
    assert without_settings(resumed.events) == without_settings(whole.events)
    assert (cut.folder / "rollouts.jsonl").read_bytes() == (whole.folder / "rollouts.jsonl").read_bytes()


EDITS = {
    "other line ends": lambda text: text.replace(b"\n", b"\r\n"),
    "a byte more": lambda text: b" " + text,
    "the same length": lambda text: text.replace(b"0", b"9", 1),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("file", ["events.jsonl", "rollouts.jsonl"])
def test_logs_that_were_edited_are_not_gone_on_with(train: Train, file: str, edit: str) -> None:
    done = train("popo", {"budget.steps": 4, "checkpoint.every": 2, "log.rollouts": True})
    path = done.folder / file
    text = path.read_bytes()
    path.write_bytes(EDITS[edit](text))
    before = {p: p.read_bytes() for p in done.folder.rglob("*") if p.is_file()}
    with pytest.raises(UserError, match=f"step_2 refused: {file} was changed since"):
        again(done.folder, budget__steps=5)
    assert before == {p: p.read_bytes() for p in done.folder.rglob("*") if p.is_file()}
    path.write_bytes(text)
    assert again(done.folder, budget__steps=5).stop["step"] == 5


def test_a_line_that_was_edited_costs_the_checkpoints_that_know_it(train: Train) -> None:
    whole = train("popo", {"budget.steps": 5}, name="whole")
    done = train("popo", {"budget.steps": 4, "checkpoint.every": 2})
    done.folder.joinpath("events.jsonl").write_bytes(
        done.bytes.replace(b'"step":4,"updates":8', b'"step":4,"updates":9')
    )
    resumed = again(done.folder, budget__steps=5)
    assert without_settings(resumed.events) == without_settings(whole.events)
    assert resumed.weights() == whole.weights()


def test_a_clock_log_that_was_edited_keeps_whole_lines(train: Train) -> None:
    done = train("popo", {"budget.steps": 3})
    path = done.folder / "clock.jsonl"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n")[:-3])
    again(done.folder, budget__steps=5)
    assert [json.loads(line)["step"] for line in path.open()][-2:] == [4, 5]


def test_a_run_that_is_moved_while_it_is_written_says_so(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = folder.RunFolder.step

    def moved(self: Any, record: Any, *rest: Any) -> None:
        step(self, record, *rest)
        if record.step == 3:
            self.output.rename(self.output.with_name("elsewhere"))

    monkeypatch.setattr(folder.RunFolder, "step", moved)
    with pytest.raises(UserError, match=r"was moved.* from its last checkpoint \(step 2\)"):
        train("popo", {"budget.steps": 6, "checkpoint.every": 2}, name="here")
    monkeypatch.undo()
    elsewhere = tmp_path / "elsewhere"
    assert not (tmp_path / "here").exists()
    whole = train("popo", {"budget.steps": 6}, name="whole")
    assert again(elsewhere).weights() == whole.weights()


def test_a_kill_while_a_checkpoint_takes_the_place_of_another_loses_neither(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = train("popo", {"budget.steps": 3, "checkpoint.keep": 1})
    rename = Path.rename

    def killed(self: Path, target: Path) -> Path:
        if self.name.startswith(".writing-"):
            raise SystemExit
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", killed)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # a kill leaves no time to tidy up
    with pytest.raises(SystemExit):
        run.resume(done.folder, build, Console(), anew=["replay"])
    monkeypatch.undo()
    names = sorted(p.name for p in (done.folder / "checkpoints").iterdir())
    assert names == [".replaced-step_3", ".writing-step_3"]
    said: list[str] = []
    monkeypatch.setattr(Console, "note", lambda self, text: said.append(text))
    assert again(done.folder, budget__steps=4).stop["step"] == 4
    assert said[0] == "step_3 was to be written anew when the run was killed; it is as it was before"
    assert sorted(p.name for p in (done.folder / "checkpoints").iterdir()) == ["step_4"]


def test_a_pipe_among_the_checkpoints_is_not_waited_for(train: Train) -> None:
    done = train("popo", {"budget.steps": 3, "checkpoint.keep": 1})
    for n in (4, 9):
        os.mkfifo(done.folder / "checkpoints" / f"step_{n}")
    assert again(done.folder, budget__steps=4).stop["step"] == 4
    assert sorted(p.name for p in (done.folder / "checkpoints").iterdir()) == ["step_4"]


def test_rollouts_that_are_gone_are_no_reason_to_stop(train: Train) -> None:
    done = train("popo", {"budget.steps": 3, "checkpoint.every": 1, "checkpoint.keep": 1, "log.rollouts": True})
    (done.folder / "rollouts.jsonl").unlink()
    with pytest.raises(UserError, match=r"shorter than it was then; log\.rollouts=false goes on without it"):
        again(done.folder, budget__steps=4)
    assert again(done.folder, budget__steps=4, log__rollouts=False).stop["step"] == 4
    assert not (done.folder / "rollouts.jsonl").exists()
    again(done.folder, budget__steps=5, log__rollouts=True)
    assert logged_steps(done.folder) == [5]


def logged_steps(folder: Path) -> list[int]:
    """Steps in rollouts.jsonl, each once for the run of its lines."""
    lines = [json.loads(line)["step"] for line in (folder / "rollouts.jsonl").open()]
    return [s for i, s in enumerate(lines) if i == 0 or lines[i - 1] != s]


@pytest.mark.parametrize("pattern", [(False, True), (True, False), (True, False, True), (False, True, False)])
def test_rollouts_switched_on_or_off_at_a_resume_are_logged_once(train: Train, pattern: tuple[bool, ...]) -> None:
    """Each resume is killed two steps after its last checkpoint, and gone on with under the same settings."""
    more = {"checkpoint.every": 3, "checkpoint.keep": 9}
    whole = train("popo", {"budget.steps": 3 * len(pattern), "log.rollouts": True}, name="whole")
    done = train("popo", {**more, "budget.steps": 3, "log.rollouts": pattern[0]}, name="cut")
    for i, on in enumerate(pattern[1:], start=2):
        again(done.folder, budget__steps=3 * i - 1, log__rollouts=on)
        shutil.rmtree(done.folder / "checkpoints" / f"step_{3 * i - 1}")  # a kill before it was written
        again(done.folder, budget__steps=3 * i)
    wanted = [s for i, on in enumerate(pattern) if on for s in range(3 * i + 1, 3 * i + 4)]
    assert logged_steps(done.folder) == wanted
    lines = (whole.folder / "rollouts.jsonl").read_bytes().splitlines()
    assert (done.folder / "rollouts.jsonl").read_bytes().splitlines() == [
        line for line in lines if json.loads(line)["step"] in wanted
    ]
    assert again(done.folder).weights() == whole.weights()


def test_a_change_is_told_of_though_the_run_is_killed_before_its_next_checkpoint(train: Train) -> None:
    done = train("popo", {"budget.steps": 3, "checkpoint.every": 3, "checkpoint.keep": 9})
    again(done.folder, budget__steps=4, eval__seconds=1e6)
    shutil.rmtree(done.folder / "checkpoints" / "step_4")
    resumed = again(done.folder, budget__steps=4)
    told = [e["changed"] for e in resumed.events if e["event"] == "config"]
    assert told == [{"budget.steps": [3, 4], "eval.seconds": [None, 1e6]}]


def test_settings_changed_and_changed_back_before_a_checkpoint_are_the_old_ones(train: Train) -> None:
    done = train("popo", {"budget.steps": 3, "checkpoint.every": 3, "checkpoint.keep": 9})
    again(done.folder, budget__steps=4)
    shutil.rmtree(done.folder / "checkpoints" / "step_4")
    resumed = again(done.folder, budget__steps=3)
    assert [e["event"] for e in resumed.events if e["event"] == "config"] == []
    assert run.stored_config(done.folder).budget.steps == 3


def test_lost_clock_times_do_not_matter(train: Train) -> None:
    done = train("popo", {"budget.steps": 3})
    (done.folder / "clock.jsonl").unlink()
    assert again(done.folder, budget__steps=4).stop["step"] == 4


def test_settings_changed_by_hand_are_refused(train: Train) -> None:
    done = train("popo", {"budget.steps": 2})
    text = (done.folder / "config.yaml").read_text()
    assert "lr: 0.0002" in text
    (done.folder / "config.yaml").write_text(text.replace("lr: 0.0002", "lr: 0.002"))
    with pytest.raises(UserError, match=r"learner.lr was 0.0002 and would be 0.002"):
        again(done.folder, budget__steps=3)


def test_changed_data_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "d.jsonl"
    rows: list[dict[str, Any]] = [
        {"nums": [a, b, a + b], "target": a * b + a + b} for a in range(2, 9) for b in range(2, 9)
    ]
    data.write_text("".join(json.dumps(r) + "\n" for r in rows))
    settings = {"task": "countdown", "task_args": {"data": str(data)}, "budget": {"steps": 2}, "prompts_per_step": 4}
    folder, _ = run.start(resolve([("test", {**settings, "output": str(tmp_path / "run")})]), Console())
    rows[11]["target"] += 1
    data.write_text("".join(json.dumps(r) + "\n" for r in rows))
    with pytest.raises(UserError, match="its data has changed since it began"):
        again(folder, budget__steps=3)


def test_a_folder_taken_while_the_model_loads_is_left_alone(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    from rollwise import assemble

    first: list[Finished] = []

    def slow(config: Any, folder: Any = None) -> Any:
        if not first:
            first.append(taken())
        return assemble.load_model(config, folder)

    def taken() -> Finished:
        monkeypatch.undo()
        return Finished(train("grpo", {"budget.steps": 1}, name="same").folder)

    monkeypatch.setattr(run, "load_model", slow)
    with pytest.raises(UserError, match="is in use"):
        train("popo", {"budget.steps": 1}, name="same")
    assert Finished(first[0].folder).bytes == first[0].bytes


def test_a_full_disk_is_one_line_and_the_checkpoints_stay(tmp_path: Path) -> None:
    folder = tmp_path / "full"
    limit = """
import resource, signal, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, 700_000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from rollwise.cli import main
raise SystemExit(main(sys.argv[1:]))
"""
    argv = [
        sys.executable,
        "-c",
        limit,
        *COMMAND[3:],
        "--set",
        f"output={folder}",
        "--set",
        "budget.steps=4",
        "--quiet",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "File too large" in done.stderr or "cannot be written" in done.stderr
    assert checkpoint.steps(folder / "checkpoints") == []
    assert [p.name for p in (folder / "checkpoints").iterdir()] == []


def test_two_runs_in_one_folder_are_kept_apart(train: Train) -> None:
    done = train("grpo", {"budget.steps": 2})
    with folder.lock(done.folder), pytest.raises(UserError, match="is being written by another run"):
        again(done.folder, budget__steps=3)


COMMAND = [
    sys.executable,
    "-m",
    "rollwise",
    "train",
    "--set",
    "task_args.max_digits=8",
    "--set",
    "prompts_per_step=6",
    "--set",
    "group_size=4",
    "--set",
    "eval.prompts=8",
    "--set",
    "eval.every=null",
    "--set",
    "log.report=false",
]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_with_a_checkpoint_and_the_run_goes_on(train: Train, tmp_path: Path, sent: int) -> None:
    folder = tmp_path / "cut"
    process = subprocess.Popen(
        [*COMMAND, "--set", f"output={folder}", "--set", "budget.steps=400"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        events = folder / "events.jsonl"
        if events.exists() and events.read_text().count('"event":"step"') >= 3:
            break
        time.sleep(0.02)
    process.send_signal(sent)
    _out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    cut = Finished(folder)
    assert cut.stop["reason"] == "interrupt"
    assert checkpoint.steps(folder / "checkpoints") == [cut.stop["step"]]
    steps = cut.stop["step"] + 2
    resumed = again(folder, budget__steps=steps)
    settings = {"budget.steps": steps, "learner.updates_per_batch": 4, "learner.warmup_updates": 40, "eval.samples": 2}
    whole = train("popo", settings, name="whole")
    assert resumed.weights() == whole.weights()
    assert without_settings(resumed.events) == without_settings(whole.events)


def test_what_a_reset_allowed_holds_however_the_run_goes_on(tmp_path: Path) -> None:
    """The checkpoint is written anew at once: a kill before the next one leaves a run that plainly resumes."""
    import json

    from rollwise import checkpoint
    from rollwise.cli.main import main

    output = tmp_path / "run"
    few = ["--set", "prompts_per_step=2", "--set", "group_size=2", "--set", "eval.prompts=2", "--quiet"]
    assert main(["train", "--output", str(output), "--set", "budget.steps=2", *few]) == 0
    reset = ["--resume-reset", "optimizer", "--set", "learner.lr=1e-5", "--set", "budget.steps=2"]
    assert main(["resume", str(output), *reset, "--quiet"]) == 0
    state = checkpoint.load(output / "checkpoints" / "step_2")
    moments = state["loop"]["learner"]["moments"].values()
    assert state["config"]["learner"]["lr"] == 1e-5 and not any(v.any() for each in moments for v in each.values())
    assert main(["resume", str(output), "--set", "budget.steps=4", "--quiet"]) == 0
    steps = [json.loads(line) for line in (output / "events.jsonl").read_text().splitlines()]
    assert [e["step"] for e in steps if e["event"] == "step"] == [1, 2, 3, 4]


def test_a_bundled_model_on_rows_of_ones_own_is_a_model_like_any_other(tmp_path: Path) -> None:
    import json

    from rollwise.cli.main import main
    from rollwise.starters import starter_path

    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": str(100 + i), "answer": str(i)}) + "\n" for i in range(16)))
    given = {
        "task": "exact", "task_args.data": rows, "task_args.template": "none", "model": starter_path("sort_digits"),
        "sampling.max_prompt_length": 32, "sampling.max_completion_length": 8, "prompts_per_step": 2, "group_size": 2,
        "budget.steps": 1, "eval.prompts": 2, "output": tmp_path / "run",
    }  # fmt: skip
    assert main(["train", "--quiet", *(f"--set={k}={v}" for k, v in given.items())]) == 0
