"""Whole runs on verl through the command line: real Ray, FSDP2 over gloo, rollout servers, on the CPU.

Each run is compared with the same settings on the local engine. A start of verl takes half a minute or more; what one
run can show is shown by one run.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

METHODS = ["popo", "dapo", "pilot-commit", "per", "mopps"]
RUN = {
    "budget.steps": 10,
    "prompts_per_step": 24,
    "learner.lr": 4e-4,
    "learner.warmup_updates": 0,
    "eval.prompts": 400,
    "eval.every": 100,
    "replay.warmup_steps": 2,
    "log.report": False,
}


def command(output: Path, settings: dict[str, Any], *more: str) -> list[str]:
    sets = [f"--set={key}={json.dumps(value)}" for key, value in settings.items()]
    return [sys.executable, "-m", "rollwise", "train", *sets, f"--set=output={output}", *more]


def trained(output: Path, settings: dict[str, Any], *more: str, status: int = 0) -> list[dict[str, Any]]:
    """The events of a run that ends as it should."""
    ran = subprocess.run(command(output, settings, *more), capture_output=True, text=True, timeout=900)
    assert ran.returncode == status, f"{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}\n{tail(output)}"
    return events(output)


def events(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output / "events.jsonl").read_text().splitlines()]


def tail(output: Path) -> str:
    log = output / "verl.log"
    return log.read_text(errors="replace")[-4000:] if log.is_file() else ""


def of(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [e for e in found if e["event"] == kind]


def settings_of(method: str) -> dict[str, Any]:
    read = {k: v for k, v in RUN.items() if method == "per" or k != "replay.warmup_steps"}
    return {"method": method, **read}


@pytest.mark.parametrize("method", METHODS)
def test_a_method_learns_and_counts_as_on_the_local_engine(method: str, tmp_path: Path) -> None:
    there = trained(tmp_path / "verl", settings_of(method), "--backend", "verl")
    here = trained(tmp_path / "local", settings_of(method))
    steps, local = of(there, "step"), of(here, "step")
    assert len(steps) == len(local) == 10 and of(there, "stop")[0]["reason"] == "budget.steps"
    # The same seeds draw the same tokens from the same weights; later the last bits of the weights differ, and with
    # them now and then a token.
    assert steps[0]["ledger"]["generated"] == local[0]["ledger"]["generated"]
    assert steps[0]["metrics"]["reward"] == local[0]["metrics"]["reward"]
    for key in ("loss", "grad_norm"):
        assert steps[0]["metrics"][key] == pytest.approx(local[0]["metrics"][key], abs=1e-4, rel=1e-4)
    if method != "dapo" and method != "pilot-commit":  # how many those generate hangs on what they have seen
        a, b = ([e["ledger"]["generated"]["rollouts"] for e in s] for s in (steps, local))
        assert a == b
    assert [e["updates"] for e in steps] == [e["updates"] for e in local]
    assert steps[-1]["metrics"]["sampling/logp_diff_max"] < 1e-4, "the servers had the newest weights in every step"
    if method in ("popo", "per"):
        replayed = [e["metrics"] for e in steps if e["metrics"]["replay/rollouts"] > 0]
        assert replayed and all(m["weight/mean_abs_log"] > 1e-3 for m in replayed[1:]), "birth log-probs are not these"
    first, last = (of(there, "eval")[i]["results"]["accuracy"] for i in (0, -1))
    assert last > first + 0.02
    assert abs(last - of(here, "eval")[-1]["results"]["accuracy"]) < 0.12


def test_two_trainer_processes_do_what_one_does(tmp_path: Path) -> None:
    """Rows are spread over data-parallel workers; loss and gradient stay those of the whole mini-batch."""
    settings = {**settings_of("popo"), "budget.steps": 3, "eval.prompts": 40}
    here = of(trained(tmp_path / "local", settings), "step")
    two = {**settings, "verl": {"trainer.n_gpus_per_node": 2}}
    there = of(trained(tmp_path / "two", two, "--backend", "verl"), "step")
    assert [e["ledger"]["generated"]["rollouts"] for e in there] == [e["ledger"]["generated"]["rollouts"] for e in here]
    for key in ("reward", "loss", "grad_norm", "clip_ratio/fresh"):
        assert there[0]["metrics"][key] == pytest.approx(here[0]["metrics"][key], abs=1e-4, rel=1e-3), key
    assert there[1]["metrics"]["weight/mean_abs_log"] == pytest.approx(
        here[1]["metrics"]["weight/mean_abs_log"], rel=0.2
    )


def test_a_run_that_is_stopped_goes_on_with_its_buffer(tmp_path: Path) -> None:
    """Asked to stop after a step, resumed, and at its end where the run without a stop is; then a torn checkpoint is
    passed over."""
    whole = {**settings_of("popo"), "budget.steps": 6, "eval.prompts": 40}
    settings = {**whole, "checkpoint.every": 2}
    output = tmp_path / "run"
    process = subprocess.Popen(
        command(output, {**settings, "budget.steps": 400}, "--backend", "verl"),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 600
        while not (output / "checkpoints" / "global_step_4" / "rollwise").is_dir():  # one is torn below
            assert process.poll() is None and time.monotonic() < deadline, tail(output)
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=300) == 130, tail(output)
    finally:
        process.kill()
    stopped = events(output)
    assert of(stopped, "stop")[-1]["reason"] == "interrupt"
    at = of(stopped, "stop")[-1]["step"]
    newest = output / "checkpoints" / f"global_step_{at}"
    assert newest.is_dir()
    last = max(newest.joinpath("actor").glob("*.pt"), key=lambda p: p.stat().st_size)
    os.truncate(last, last.stat().st_size // 2)
    ran = subprocess.run(
        [sys.executable, "-m", "rollwise", "resume", str(output), f"--set=budget.steps={at + 3}"],
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:] + tail(output)
    assert f"steps: {at + 3}\n" in (output / "config.yaml").read_text() and not (output / ".resume.yaml").exists()
    assert f"global_step_{at} refused: its weights are not the files that were written" in tail(output) + ran.stderr
    steps = of(events(output), "step")
    assert [e["step"] for e in steps] == list(range(1, at + 4)), "no step is missing and none is there twice"
    here = of(trained(tmp_path / "local", {**whole, "budget.steps": at + 3}), "step")
    for a, b in zip(steps, here, strict=True):
        assert a["ledger"]["generated"]["rollouts"] == b["ledger"]["generated"]["rollouts"]
        assert a["updates"] == b["updates"]
    assert steps[-3]["metrics"]["replay/groups"] > 0, "the buffer was there in the first step after the resume"
    assert steps[-1]["metrics"]["reward"] == pytest.approx(here[-1]["metrics"]["reward"], abs=0.15)


def test_a_critic_and_a_reference_on_verl(tmp_path: Path) -> None:
    """PPO with a model of its own for the values, and a KL term in its rewards."""
    settings = {
        **{k: v for k, v in RUN.items() if not k.startswith("replay")},
        "method": "ppo", "critic.kind": "model", "advantage.kl_in_reward": 0.01, "budget.steps": 8, "eval.prompts": 40,
    }  # fmt: skip
    there = of(trained(tmp_path / "verl", settings, "--backend", "verl"), "step")
    here = of(trained(tmp_path / "local", settings), "step")
    assert there[0]["metrics"]["reward"] == here[0]["metrics"]["reward"]
    for step in there:
        assert step["metrics"]["value/loss"] > 0 and step["metrics"]["grad_norm"] > 0
    assert there[-1]["metrics"]["value/explained_variance"] > there[0]["metrics"]["value/explained_variance"]


def test_data_that_teaches_nothing_ends_with_its_reason(tmp_path: Path) -> None:
    """verl's own dynamic sampling would draw for ever; the bound is the allocation's, the end the guard's."""
    rows = tmp_path / "dead.jsonl"
    rows.write_text("".join(json.dumps({"prompt": str(100 + i), "answer": "no such answer"}) + "\n" for i in range(64)))
    settings = {
        "method": "dapo", "task": "exact", "task_args": {"data": str(rows), "template": "none"},
        "model": str(plain(tmp_path / "model")), "sampling.max_prompt_length": 64, "sampling.max_completion_length": 16,
        "prompts_per_step": 4, "group_size": 4, "allocation.max_rounds": 3, "allocation.on_limit": "stop",
        "budget.steps": 50, "eval.prompts": 8, "log.report": False,
    }  # fmt: skip
    found = trained(tmp_path / "dead", settings, "--backend", "verl")
    stop = of(found, "stop")[0]
    assert stop["reason"] == "allocation.limit", stop
    assert of(found, "step")[0]["ledger"]["generated"]["rollouts"] == 3 * 4 * 4


REWARD = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    assert data_source == "digits"
    return sum(a == b for a, b in zip(solution_str, ground_truth)) / len(ground_truth)
"""


def own_command(folder: Path, **settings: Any) -> subprocess.CompletedProcess[str]:
    """A command of verl's on data and a reward function in verl's form, the bundled model and a CPU."""
    from rollwise.backends.verl import cpu
    from rollwise.starters import starter_path

    for name, first, count in (("train", 1, 64), ("val", 65, 8)):
        numbers = [str(i * 7919 % 100_003) for i in range(first, first + count)]
        rows = [
            {
                "data_source": "digits",
                "prompt": [{"role": "user", "content": f"{number}="}],
                "reward_model": {"style": "rule", "ground_truth": "".join(sorted(number))},
            }
            for number in numbers
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "reward.py").write_text(REWARD)
    given = {
        "algorithm.adv_estimator": "grpo",
        "data.train_files": folder / "train.jsonl",
        "data.val_files": folder / "val.jsonl",
        "data.train_batch_size": 8,
        "data.max_prompt_length": 24,
        "data.max_response_length": 22,
        "reward.custom_reward_function.path": folder / "reward.py",
        "actor_rollout_ref.model.path": starter_path("sort_digits"),
        "actor_rollout_ref.actor.strategy": "fsdp2",
        "actor_rollout_ref.actor.optim.lr": 2e-4,
        "actor_rollout_ref.actor.ppo_mini_batch_size": 8,
        "actor_rollout_ref.actor.use_dynamic_bsz": True,
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": 4096,
        "actor_rollout_ref.rollout.dtype": "float32",
        "actor_rollout_ref.rollout.n": 8,
        "trainer.logger": "[console]",
        "trainer.total_training_steps": 4,
        "trainer.test_freq": -1,
        "trainer.save_freq": 2,
        "trainer.default_local_dir": folder / "run",
        # what a CPU needs
        "actor_rollout_ref.rollout.name": "rollwise_cpu",
        "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
        "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz": True,
        "actor_rollout_ref.rollout.agent.num_workers": 1,
        "actor_rollout_ref.model.use_remove_padding": False,
        "+actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
        "actor_rollout_ref.actor.use_torch_compile": False,
        "actor_rollout_ref.actor.fsdp_config.use_torch_compile": False,
        "reward.num_workers": 1,
        "ray_kwargs.ray_init.num_cpus": 16,
        "+ray_kwargs.ray_init.num_gpus": 1,
        "+ray_kwargs.ray_init.include_dashboard": False,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        "trainer.device": "cpu",
        "trainer.nnodes": 1,
        "trainer.n_gpus_per_node": 1,
        # ours
        "trainer.v1.trainer_mode": "rollwise",
        "+rollwise.method": "popo",
        "+rollwise.task_args.verifier": "exact",
        "hydra.run.dir": folder / "hydra",
    }
    return subprocess.run(
        [sys.executable, "-m", "verl.trainer.main_ppo", *(f"{k}={v}" for k, v in {**given, **settings}.items())],
        env={**os.environ, **cpu.environment()}, capture_output=True, text=True, timeout=900,
    )  # fmt: skip


def test_a_command_of_a_verl_user_trains_and_goes_on(tmp_path: Path) -> None:
    """With a reward function of his; then again with more steps, from its checkpoint."""
    ran = own_command(tmp_path)
    assert ran.returncode == 0, f"{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    found = events(tmp_path / "run")
    steps = of(found, "step")
    assert [e["step"] for e in steps] == [1, 2, 3, 4] and of(found, "stop")[0]["reason"] == "budget.steps"
    assert steps[0]["ledger"]["generated"]["rollouts"] == 64 and steps[-1]["updates"] > 0
    assert all(e["metrics"]["grad_norm"] > 0 for e in steps)
    assert 0 < steps[0]["metrics"]["accuracy"] < steps[0]["metrics"]["reward"] < 1, "the function's, a digit at a time"
    assert steps[-1]["metrics"]["replay/rollouts"] > 0
    ran = own_command(tmp_path, **{"trainer.total_training_steps": 5})
    assert ran.returncode == 0, f"{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    assert [e["step"] for e in of(events(tmp_path / "run"), "step")] == [1, 2, 3, 4, 5]


def test_a_command_of_a_verl_user_that_cannot_run_ends_with_a_line(tmp_path: Path) -> None:
    ran = own_command(tmp_path, **{"data.max_prompt_length": 4})
    assert ran.returncode == 1 and not (tmp_path / "run").exists()
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("rollwise: error: data: ") and "are too long, the longest is" in last
    assert "data.max_prompt_length allows 1 to 4" in last and "data.filter_overlong_prompts=True" in last


ODD = """
import math
def even(completion: str, answer: str) -> float:
    return sum(a == b for a, b in zip(completion, answer)) / len(answer)
def odd(completion: str, answer: str) -> float:
    kind = sum(map(ord, completion)) % 8
    if kind == 0:
        raise ValueError("no")
    return {1: math.nan, 2: math.inf}.get(kind, even(completion, answer))
"""


@pytest.mark.parametrize("kind", ["rewards", "groups of one"])
def test_odd_data_does_what_it_does_on_the_local_engine(kind: str, tmp_path: Path) -> None:
    """One row, and a reward function that raises, or says what is no number; groups of one."""
    reward = tmp_path / "reward.py"
    reward.write_text(ODD)
    (tmp_path / "held.jsonl").write_text('{"prompt": "9201=", "answer": "0129"}\n')
    (tmp_path / "one.jsonl").write_text('{"prompt": "276411873851935719=", "answer": "111123345567778899"}\n')
    settings = {
        "task": "exact", "task_args.data": str(tmp_path / "one.jsonl"), "task_args.template": "none",
        "task_args.heldout_data": str(tmp_path / "held.jsonl"), "model": str(plain(tmp_path / "model")),
        "sampling.max_prompt_length": 24, "sampling.max_completion_length": 22, "learner.lr": 1e-3,
        "budget.steps": 3, "eval.prompts": 8, "log.report": False,
        **(
            {"method": "reinforce++", "prompts_per_step": 16, "group_size": 1, "reward.function": f"{reward}:even"}
            if kind == "groups of one"
            else {"method": "grpo", "prompts_per_step": 2, "group_size": 16, "sampling.temperature": 1.3,
                  "reward.function": f"{reward}:odd"}
        ),
    }  # fmt: skip
    there = of(trained(tmp_path / "verl", settings, "--backend", "verl"), "step")
    here = of(trained(tmp_path / "local", settings), "step")
    assert [e["step"] for e in there] == [1, 2, 3] and there[0]["updates"] == here[0]["updates"] == 1
    for key in ("reward", "verifier/infra_error"):
        assert there[0]["metrics"][key] == here[0]["metrics"][key], key
    for key in ("loss", "grad_norm"):
        assert there[0]["metrics"][key] == pytest.approx(here[0]["metrics"][key], abs=1e-4, rel=1e-4), key
    assert (there[0]["metrics"]["verifier/infra_error"] > 0) == (kind == "rewards")


def plain(folder: Path) -> Path:
    """The bundled model as a folder that names no task."""
    from rollwise.starters import starter_path

    shutil.copytree(starter_path("sort_digits"), folder)
    config = json.loads((folder / "config.json").read_text())
    del config["rollwise_starter"]
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_pictures_go_the_whole_way(tmp_path: Path) -> None:
    """An image-text model of random weights on drawn figures, rewarded for something it can change."""
    from tests.models import tiny_vision_model

    rewards = tmp_path / "rewards.py"
    rewards.write_text(
        "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
        "    return float(sum(map(ord, solution_str)) % 2)\n"
    )
    settings = {
        "method": "popo", "task": "geometry", "model": str(tiny_vision_model(tmp_path / "model")),
        "reward.function": f"{rewards}:compute_score", "prompts_per_step": 4, "group_size": 4, "budget.steps": 3,
        "sampling.max_completion_length": 8, "sampling.max_prompt_length": 512, "learner.lr": 1e-3,
        "eval.prompts": 4, "log.report": False,
    }  # fmt: skip
    steps = of(trained(tmp_path / "verl", settings, "--backend", "verl"), "step")
    assert [e["updates"] for e in steps][-1] > 0
    for step in steps:
        assert step["metrics"]["grad_norm"] > 0
        # tokens that stand for pictures are left out of the sampler's distribution and not of the workers'
        assert step["metrics"]["sampling/logp_diff_max"] < 0.1
