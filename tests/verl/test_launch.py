"""verl's command as a process of a run: what is checked before, what is passed on, and how an end is told. The command
is played by a script of a few lines; `test_end_to_end.py` has the real one."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file, save_file

from rollwise.backends.verl import launch, versions
from rollwise.backends.verl.overrides import arguments
from rollwise.backends.verl.refused import Refused
from rollwise.backends.verl.store import VerlStore
from rollwise.cli.main import main
from rollwise.errors import UserError
from rollwise.folder import lock
from rollwise.starters import starter_path
from tests.verl.test_store import STATE

SMALL = ["--set", "budget.steps=1", "--set", "prompts_per_step=2", "--set", "log.report=false", "--backend", "verl"]
STOP: dict[str, Any] = {"event": "stop", "reason": "budget", "detail": "budget.steps", "step": 1, "ledger": {}}


def plays(body: str) -> tuple[str, ...]:
    """A command that reads its arguments as the trainer does, and then does as `body` says."""
    head = f"""
        import json, os, signal, sys, time
        from pathlib import Path
        given = dict(a.split("=", 1) for a in sys.argv[1:])
        run = Path(given["+rollwise.config"].strip("'")).parent
        stop = {json.dumps(STOP, separators=(",", ":"))!r} + "\\n"
        end = lambda: (run / "events.jsonl").write_text(stop)
    """
    return (sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(body))


@pytest.fixture
def verl(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """An environment in which verl is there and does as it is told."""
    plugin = EntryPoint("rollwise", "rollwise.backends.verl.plugin", "verl.plugins")
    monkeypatch.setattr(versions, "version", lambda name: "0.9.1")
    monkeypatch.setattr(versions, "entry_points", lambda group: EntryPoints([plugin]))
    monkeypatch.setattr(launch, "composed", lambda arguments: None)
    monkeypatch.setattr("rollwise.cli.training._end", lambda output, event, console, **_: 0 if event == STOP else 9)
    return lambda body: monkeypatch.setattr(launch, "COMMAND", plays(body))


def test_a_run_is_a_folder_and_a_process(
    verl: Callable[[str], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    verl("print('from verl', os.environ['VERL_PLATFORM'], sorted(p.name for p in run.iterdir())); end()")
    assert main(["train", *SMALL, "--output", str(tmp_path / "run")]) == 0
    said = "from verl cpu ['.lock', 'config.yaml', 'verl.log']"
    assert said in capfd.readouterr().err and said in (tmp_path / "run" / "verl.log").read_text()
    stored = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert stored["backend"] == "verl" and stored["output"] == str(tmp_path / "run")
    assert main(["train", *SMALL, "--output", str(tmp_path / "run")]) == 2, "in use"


def test_quiet_keeps_to_the_log(verl: Callable[[str], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    verl("print('from verl'); end()")
    assert main(["train", *SMALL, "--quiet", "--output", str(tmp_path / "run")]) == 0
    assert capfd.readouterr().err == "" and "from verl" in (tmp_path / "run" / "verl.log").read_text()


def test_an_end_without_a_word_has_failed(
    verl: Callable[[str], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    verl("print('Traceback'); print('(Worker) ray.exceptions.ActorDiedError: it died\\n  more'); sys.exit(3)")
    assert main(["train", *SMALL, "--output", str(out)]) == 1
    said = capfd.readouterr().err.splitlines()[-1]
    assert said == (
        "rollwise: verl ended with status 3 before the run did (ray.exceptions.ActorDiedError: it died); what it "
        f"printed is in {out}/verl.log; go on with: rollwise resume {out}"
    )


def test_a_folder_that_verl_would_take_for_a_reference_is_refused(
    verl: Callable[[str], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    verl("raise SystemExit('it was started')")
    assert main(["train", *SMALL, "--output", str(tmp_path / "a${b}")]) == 2
    assert "holds '${', which verl's settings take for a reference" in capfd.readouterr().err


def test_what_the_trainer_could_not_do_is_the_users_line(
    verl: Callable[[str], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    verl("(run / '.error').write_text('task: no rows\\n'); sys.exit(1)")
    assert main(["train", *SMALL, "--output", str(tmp_path / "run")]) == 2
    assert capfd.readouterr().err.endswith("rollwise: error: task: no rows\n")


def test_a_run_goes_on_with_what_may_change(
    verl: Callable[[str], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    verl("end()")
    assert main(["train", *SMALL, "--output", run]) == 0
    begun_with = (tmp_path / "run" / "config.yaml").read_text()
    verl("""
        assert given['+rollwise.resume'] == 'true'
        print('nodes', given['trainer.nnodes'])
        wanted = Path(given['+rollwise.config'].strip("'"))
        (run.parent / 'wanted.yaml').write_text(wanted.read_text())
        end()
    """)
    assert main(["resume", run, "--set", "verl.trainer.nnodes=2", "--set", "budget.steps=5"]) == 0
    assert "nodes 2" in capfd.readouterr().err
    wanted = yaml.safe_load((tmp_path / "wanted.yaml").read_text())
    assert wanted["verl"] == {"trainer.nnodes": 2} and wanted["budget"]["steps"] == 5
    assert (tmp_path / "run" / "config.yaml").read_text() == begun_with, "the trainer's to write, once it goes on"
    assert not (tmp_path / "run" / ".resume.yaml").exists()
    verl("sys.exit(0)")
    assert main(["resume", run]) == 1, "the stop event of before is not this one's"
    for wrong in (["--set", "learner.lr=1"], ["--set", "backend=local"], ["--resume-reset", "optimizer"]):
        assert main(["resume", run, *wrong]) == 2
    assert "a resumed run keeps its settings" in capfd.readouterr().err


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


def shards(run: Path, step: int, processes: int) -> None:
    """A finished checkpoint, by the names of its files."""
    top = run / "checkpoints" / f"global_step_{step}"
    (top / "rollwise" / f"step_{step}").mkdir(parents=True)
    (top / "actor").mkdir()
    for rank in range(processes):
        (top / "actor" / f"model_world_size_{processes}_rank_{rank}.pt").touch()


def test_shards_of_another_number_of_processes_are_refused_before_anything_starts(
    verl: Callable[[str], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    verl("end()")
    assert main(["train", *SMALL, "--output", str(run), "--set", "verl.trainer.n_gpus_per_node=2"]) == 0
    shards(run, 2, 2)
    (run / "checkpoints" / "global_step_4" / "actor").mkdir(parents=True)  # not finished
    before = contents(run)
    verl("raise SystemExit('it was started')")
    for settings, words in (
        (["verl.trainer.n_gpus_per_node=1"], "its shards are of 2 FSDP processes, and 1 would go on"),
        (["verl.trainer.nnodes=3"], "its shards are of 2 FSDP processes, and 6 would go on"),
        (["verl.actor_rollout_ref.actor.strategy=fsdp"], "strategy was fsdp2 and would be fsdp"),
        (["verl.model_engine=megatron"], "verl.model_engine is megatron, which needs accelerators"),
    ):
        capfd.readouterr()
        assert main(["resume", str(run), *(f"--set={s}" for s in settings)]) == 2
        said = capfd.readouterr().err
        assert words in said and said.count("\n") == 1
        assert contents(run) == before
    onto = ["resume", str(run), "--set=verl.trainer.n_gpus_per_node=1", "--set=verl.trainer.nnodes=2"]
    assert main(onto) == 2
    assert "global_step_2 refused: it has no manifest" in capfd.readouterr().err
    assert contents(run) == before
    verl("end()")
    VerlStore({"actor": Shards()}).save(run / "checkpoints", 6, STATE, keep=1, spare=())
    assert main(onto) == 0


class Shards:
    """Plays two workers."""

    def save_checkpoint(self, path: str, remote: None, step: int, max_ckpt_to_keep: None) -> None:
        Path(path).mkdir()
        for rank in range(2):
            (Path(path) / f"model_world_size_2_rank_{rank}.pt").write_bytes(b"weights")


def test_a_command_of_a_verl_user_does_not_go_on_with_shards_of_others(tmp_path: Path) -> None:
    pytest.importorskip("verl", reason="verl is not installed here; `make test-verl` runs this")
    from rollwise.backends.verl.compose import composed
    from rollwise.backends.verl.trainer import RollwiseTrainer

    shards(tmp_path / "run", 2, 4)
    given = {
        "data.train_files": "train.jsonl",
        "data.val_files": "val.jsonl",
        "trainer.default_local_dir": str(tmp_path / "run"),
        "trainer.total_training_steps": 3,
        "trainer.n_gpus_per_node": 2,
        "actor_rollout_ref.model.path": "org/model",
        "actor_rollout_ref.rollout.name": "vllm",
        "actor_rollout_ref.rollout.n": 4,
        "algorithm.adv_estimator": "grpo",
        "+rollwise.method": "popo",
    }
    with pytest.raises(Refused, match="its shards are of 4 FSDP processes, and 2 would go on"):
        RollwiseTrainer(composed(arguments(given)))
    with pytest.raises(Refused, match="did you mean 'popo'"):
        RollwiseTrainer(composed(arguments({**given, "+rollwise.method": "pop"})))


def test_what_the_trainer_refuses_on_a_resume_leaves_the_settings(
    verl: Callable[[str], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    verl("end()")
    assert main(["train", *SMALL, "--output", str(run)]) == 0
    before = contents(run)
    verl("(run / '.error').write_text('its data has changed\\n'); sys.exit(1)")
    assert main(["resume", str(run), "--set", "budget.steps=7"]) == 2
    assert capfd.readouterr().err.endswith("rollwise: error: its data has changed\n")
    assert contents(run) == before


def test_prompts_that_are_too_long_are_found_before_the_folder_is_made(
    verl: Callable[[str], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    verl("raise SystemExit('it was started')")
    run = ["--output", str(tmp_path / "run"), "--set", "sampling.max_prompt_length=8"]
    assert main(["train", *SMALL, *run]) == 2
    there = capfd.readouterr().err.splitlines()[-1]
    assert "prompts looked at are too long, the longest is" in there and not (tmp_path / "run").exists()
    assert main(["train", *SMALL, *run, "--backend", "local"]) == 2
    assert capfd.readouterr().err.splitlines()[-1] == there


def test_weights_that_are_not_finite_are_found_before_the_folder_is_made(
    verl: Callable[[str], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    verl("raise SystemExit('it was started')")
    model = tmp_path / "model"
    shutil.copytree(starter_path("sort_digits"), model)
    weights = load_file(model / "model.safetensors")
    name = sorted(weights)[0]
    weights[name][:] = np.nan
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    assert main(["train", *SMALL, "--output", str(tmp_path / "run"), "--set", f"model={model}"]) == 2
    said = capfd.readouterr().err.splitlines()[-1]
    assert f"holds weights that are not finite ({name}" in said and not (tmp_path / "run").exists()


def test_a_refusal_ends_the_command_it_reaches_with_its_line() -> None:
    """What Ray does with an exception: pickled in the trainer, opened in the command."""
    sent = pickle.dumps(Refused("data: no rows; give some"))
    program = (
        "import pickle, sys; error = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "print(type(error).__name__, error); raise error"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, sent.hex()],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ran.returncode == 1 and ran.stdout == "Refused data: no rows; give some\n"
    assert ran.stderr.splitlines()[-1] == "rollwise: error: data: no rows; give some"


def test_the_first_signal_asks_and_the_second_ends(tmp_path: Path) -> None:
    """In a process of its own, whose signals are its own."""
    program = f"""
        from rollwise.backends.verl import launch
        from rollwise.console import Console
        from rollwise.folder import lock
        from pathlib import Path
        import sys
        out = Path({str(tmp_path)!r})
        print("ready", flush=True)
        try:
            environ = dict(__import__("os").environ)
            print(launch._process(sys.argv[1:], environ, out, Console(), lock(out), quiet=True))
        except KeyboardInterrupt:
            print("interrupted")
    """
    child = (
        "import signal, sys, time; from pathlib import Path; p = Path(sys.argv[1]);\n"
        "signal.signal(signal.SIGINT, lambda *_: (p / 'reached').touch())\n"
        "if len(sys.argv) == 2: (p / 'events.jsonl').touch()\n"
        "(p / 'up').touch()\n"
        "while not ((p / '.stop').exists() and (p / 'go').exists()): time.sleep(0.02)\n"
        "sys.exit(7)"
    )
    for second in (False, True):
        for name in ("up", "go", ".stop"):
            (tmp_path / name).unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), sys.executable, "-c", child, str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        wait(lambda: (tmp_path / "up").exists())
        process.send_signal(signal.SIGINT)
        wait(lambda: (tmp_path / ".stop").exists())
        assert process.poll() is None, "it is waited for"
        if second:
            process.send_signal(signal.SIGTERM)
        else:
            (tmp_path / "go").touch()
        out, _ = process.communicate(timeout=60)
        assert out.split() == ["ready", "interrupted" if second else "7"]
        assert not (tmp_path / "reached").exists(), "the terminal's signal is not the child's"


def test_a_signal_before_the_run_has_begun_ends_it(tmp_path: Path) -> None:
    """Ray may wait for what it will never have: nothing would read the request to stop."""
    (tmp_path / "events.jsonl").write_text("of an earlier start\n")
    process = launched(tmp_path, "touch('up'); sleep(600)")
    wait(lambda: (tmp_path / "up").exists())
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 130
    assert not (tmp_path / ".stop").exists()
    wait(lambda: _free(tmp_path))


def test_a_launcher_that_is_killed_takes_verl_with_it(tmp_path: Path) -> None:
    """Whose driver ends Ray at SIGTERM; until it has, the folder is taken."""
    process = launched(tmp_path, "signal(SIGTERM, lambda *_: touch('asked')); touch('up'); until('go')")
    wait(lambda: (tmp_path / "up").exists())
    process.kill()
    process.wait()
    wait(lambda: (tmp_path / "asked").exists())
    with pytest.raises(UserError, match="is being written by another run"):
        lock(tmp_path)
    (tmp_path / "go").touch()
    wait(lambda: _free(tmp_path))


def test_verl_is_read_to_its_end_though_nobody_listens(tmp_path: Path) -> None:
    """A pipe that is not read fills up, and its writer waits."""
    process = launched(tmp_path, "print('x' * 2**20); print('last'); raise SystemExit(7)", quiet=False)
    process.stderr.close()  # type: ignore[union-attr]
    assert process.wait(timeout=60) == 7
    assert (tmp_path / "verl.log").read_text().endswith("\nlast\n")


def launched(folder: Path, child: str, *, quiet: bool = True) -> subprocess.Popen[str]:
    """A launcher in a process of its own, with `child` in verl's place; its exit status is the child's."""
    program = f"""
        import os, sys
        from pathlib import Path
        from rollwise.backends.verl import launch
        from rollwise.console import Console
        from rollwise.folder import lock
        out = Path(sys.argv[1])
        command = [sys.executable, "-c", sys.argv[2], str(out)]
        try:
            status = launch._process(command, dict(os.environ), out, Console(), lock(out), quiet={quiet})
        except KeyboardInterrupt:
            status = 130
        os._exit(status)
    """
    head = (
        "import sys; from pathlib import Path; from signal import SIGTERM, signal; from time import sleep\n"
        "touch = lambda name: Path(sys.argv[1], name).touch()\n"
        "def until(name):\n"
        "    while not Path(sys.argv[1], name).exists(): sleep(0.02)\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), str(folder), head + child],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if quiet else subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def _free(folder: Path) -> bool:
    try:
        lock(folder).close()
    except UserError:
        return False
    return True


def test_a_run_whose_checkpoints_are_gone_is_not_begun_again(
    verl: Callable[[str], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    verl("end()")
    run = tmp_path / "run"
    assert main(["train", *SMALL, "--output", str(run)]) == 0
    begun = {"event": "run", "config": {"checkpoint": {"every": 2}}}
    steps = [{"event": "step", "step": n} for n in range(1, 6)]
    log = "".join(json.dumps(e, separators=(",", ":")) + "\n" for e in (begun, *steps))
    (run / "events.jsonl").write_text(log)
    assert main(["resume", str(run)]) == 2
    assert "none is there; bring its folder `checkpoints` back" in capfd.readouterr().err
    assert (run / "events.jsonl").read_text() == log


def wait(there: Callable[[], bool]) -> None:
    for _ in range(3000):
        if there():
            return
        time.sleep(0.02)
    raise AssertionError("it never came")


@pytest.mark.parametrize("version", ["0.9.0", "0.10.0", "1.0", "0.10.0.dev0"])
def test_another_verl_is_refused(
    verl: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(versions, "version", lambda name: version)
    assert main(["train", *SMALL]) == 2
    assert f"verl {version} is installed; this version of rollwise is written for" in capsys.readouterr().err


def test_a_missing_entry_point_is_refused(
    verl: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(versions, "entry_points", lambda group: EntryPoints([]))
    assert main(["train", *SMALL]) == 2
    assert "entry point for verl is not installed" in capsys.readouterr().err


def test_plugins_that_are_switched_off_are_refused(
    verl: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", "none")
    assert main(["train", *SMALL]) == 2
    assert "VERL_USE_EXTERNAL_PLUGINS is none: verl would not load Rollwise" in capsys.readouterr().err


def test_the_settings_are_printed_without_verl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", *SMALL, "--output", str(tmp_path / "a b"), "--print-verl-config"]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"+rollwise.config='{tmp_path}/a b/config.yaml'" in lines and "data.train_batch_size=2" in lines
    assert lines == sorted(lines, key=lambda line: line.lstrip("+")) and not (tmp_path / "a b").exists()
    assert arguments({"a": 1}) == ["a=1"]


def test_settings_of_verl_are_nothing_to_the_local_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--set", "verl.trainer.nnodes=2", "--set", "budget.steps=1"]) == 2
    assert "nothing reads it with backend local" in capsys.readouterr().err


def test_check_names_what_verl_cannot_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("{method: grpo, backend: verl, threads: 4, budget: {steps: 1}}")
    assert main(["check", str(recipe)]) == 2
    assert "threads is 4 with backend verl; set OMP_NUM_THREADS" in capsys.readouterr().err


def test_shards_are_no_model_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for step in (9, 10):
        (tmp_path / "checkpoints" / f"global_step_{step}" / "actor").mkdir(parents=True)
    (tmp_path / "config.yaml").write_text("{method: grpo, backend: verl, budget: {steps: 1}}")
    (tmp_path / "rows.jsonl").write_text('{"prompt": "1+1=", "answer": "2"}\n')
    grade = ["data", "grade", str(tmp_path / "rows.jsonl"), "--output", str(tmp_path / "out.jsonl")]
    for words in (["eval", str(tmp_path)], [*grade, "--task", "exact", "--model", str(tmp_path)]):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert "verl.model_merger merge --backend fsdp --local_dir" in said and "global_step_10/actor" in said
