"""The trainer that `plugin` registers: Rollwise's loop between verl's rollout servers and verl's workers.

    trainer.v1.trainer_mode=rollwise

verl sets up Ray, workers, servers and weight transfer; from then on the loop of the local engine runs, in verl's task
runner. Not used: verl's data loader, replay buffer, advantages, policy losses, validation and reward loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf, open_dict
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils.tracking import Tracking

from rollwise import parts
from rollwise.assemble import check_data, learner_settings, load_tasks, needs_reference, wired
from rollwise.backends.verl.learner import VerlCritic, VerlLearner, Workers
from rollwise.backends.verl.mapping import from_verl
from rollwise.backends.verl.reading import read
from rollwise.backends.verl.refused import Refused
from rollwise.backends.verl.rollouts import RolloutManager, VerlSampler
from rollwise.backends.verl.store import VerlStore, check_processes, newest
from rollwise.backends.verl.theirs import in_a_command
from rollwise.config import RunConfig, build
from rollwise.console import open_console
from rollwise.errors import UserError
from rollwise.folder import check_free, lock, write_config
from rollwise.learner.base import StepLearner
from rollwise.loop import Loop, Watcher
from rollwise.policy import Policy
from rollwise.records import IDS, LOGP, Prompt, Request, Rollout, Sampling, StepRecord, StopReason
from rollwise.run import allowed_changes, begin, check_none_lost, go_on
from rollwise.tasks import Task

MANAGER = "rollwise.backends.verl.rollouts.RolloutManager"
STOP, ERROR = ".stop", ".error"  # files of the run folder: asks the run to stop; says why it could not go on


class Servers:
    """The rollout servers and the workers share their accelerators: one of them is at work at a time. Servers are
    given the newest weights when they are woken."""

    def __init__(self, manager: Any) -> None:
        self.manager, self.awake, self.version = manager, False, 0

    def wake(self) -> None:
        if not self.awake:
            self.manager.update_weights(self.version)
            self.awake = True

    def rest(self) -> None:
        if self.awake:
            self.manager.sleep_replicas()
            self.awake = False


class Awake:
    """A sampler that wakes the servers first."""

    def __init__(self, sampler: VerlSampler, servers: Servers) -> None:
        self.sampler, self.servers = sampler, servers

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, *, run_seed: int, step: int, purpose: str = "sample"
    ) -> list[list[Rollout]]:
        self.servers.wake()
        return self.sampler.generate(requests, sampling, run_seed=run_seed, step=step, purpose=purpose)


class Resting(Workers):
    """Workers that put the servers to sleep first."""

    def __init__(self, servers: Servers, group: Any, mesh: str, temperature: float, extra: Any) -> None:
        super().__init__(group, mesh, temperature, extra)
        self.servers = servers

    def infer(self, call: Any, rollouts: Sequence[Rollout], output: str) -> list[np.ndarray]:
        self.servers.rest()
        return super().infer(call, rollouts, output)

    def train(self, call: Any, rollouts: Sequence[Rollout], own: dict[str, Any], **settings: Any) -> dict[str, float]:
        self.servers.rest()
        self.servers.version += 1
        return super().train(call, rollouts, own, **settings)


class Shown:
    """The console's lines, and every number to the loggers verl was told of."""

    def __init__(self, console: Any, tracking: Any) -> None:
        self.console, self.tracking = console, tracking

    def started(self, config: RunConfig, derived: dict[str, Any]) -> None:
        self.console.started(config, derived)

    def step(self, record: StepRecord, seconds: dict[str, float]) -> None:
        self.console.step(record, seconds)
        ledger = {f"ledger/{k}": v for k, v in record.ledger.items() if isinstance(v, int | float)}
        timing = {f"seconds/{k}": v for k, v in seconds.items()}
        self.tracking.log(data={**record.metrics, **ledger, **timing}, step=record.step)

    def evaluated(self, event: dict[str, Any]) -> None:
        self.console.evaluated(event)
        self.tracking.log(data={f"eval/{k}": v for k, v in event["results"].items()}, step=event["step"])

    def note(self, text: str) -> None:
        self.console.note(text)

    def stopped(self, event: dict[str, Any]) -> None:
        self.console.stopped(event)


class RollwiseTrainer(PPOTrainer):  # type: ignore[misc]
    """See the module."""

    def __init__(self, config: DictConfig) -> None:
        tree = OmegaConf.to_container(config, resolve=True)
        own = tree.get("rollwise") or {}
        self.launched = "config" in own  # by `rollwise train`, which holds the folder and may resume it
        with _Told(None):
            self.run = from_verl(tree)
            assert self.run.output is not None
            self.output = Path(self.run.output)
            self.resuming = bool(own.get("resume")) if self.launched else config.trainer.resume_mode != "disable"
            if not self.launched:
                if not self.resuming:
                    check_free(self.output)
                elif config.get("model_engine", "dp") == "dp":
                    check_processes(self.output / "checkpoints", config.trainer.nnodes * config.trainer.n_gpus_per_node)
        self.restored: tuple[Path, dict[str, Any]] | None = None
        with open_dict(config):
            config.trainer.v1.trainer_mode = "sync"  # any other name is an asynchronous one to verl
            config.actor_rollout_ref.rollout.agent.agent_loop_manager_class = MANAGER
        super().__init__(config)

    def _build_replay_buffer(self) -> None:
        """The loop has its own."""
        return None

    def _init_dataloader(self) -> None:
        """The run's tasks instead of verl's files, and how many updates the learning rate is scheduled over."""
        with self._told():
            self.tasks: dict[str, Task] = load_tasks(self.run, print)
            check_data(self.run, self.tasks)
            self.reader, self.tasks = read(self.run, self.tasks, print)
        learner, steps = self.run.learner, self.run.budget.steps
        updates = learner.schedule_updates or (steps or 1) * learner.updates_per_batch * learner.epochs
        with open_dict(self.config):
            self.config.actor_rollout_ref.actor.optim.total_training_steps = updates
            self.config.critic.optim.total_training_steps = updates

    def _load_checkpoint(self) -> None:
        """The newest checkpoint that is whole, where the run goes on; its weights now, its state when the loop is
        there."""
        self.global_steps = 0
        self.store = VerlStore(
            {"actor": self.actor_rollout_wg, **({"critic": self.critic_wg} if self.use_critic else {})}
        )
        if not self.resuming:
            return
        with self._told():
            found = newest(self.output / "checkpoints", self.output, self.run)
            if found is None:
                check_none_lost(self.output)
        if found is None:
            print(f"{self.output} has no checkpoint yet: it begins again")
            return
        path, state, refused = found
        for line in refused:
            print(line)
        self.store.load_weights(path)
        self.restored = path, state

    def fit(self, agent_loop_manager: RolloutManager) -> None:
        """The whole run."""
        self.agent_loop_manager = agent_loop_manager
        self.logger = Tracking(
            project_name=self.config.trainer.project_name,
            experiment_name=self.config.trainer.experiment_name,
            default_backend=self.config.trainer.logger,
            config=OmegaConf.to_container(self.config, resolve=True),
        )
        with self._told(), open_console() as console:
            display = Shown(console, self.logger)
            if self.launched:
                self._go(display)
                return
            self.output.mkdir(parents=True, exist_ok=True)
            with lock(self.output):
                (self.output / STOP).unlink(missing_ok=True)  # a launcher has done so before verl began
                self._go(display)

    def _go(self, display: Shown) -> None:
        if self.restored is None:
            write_config(self.run, self.output)
            begin(self.run, self.output, self.tasks, self.store, self._make, display)
            return
        path, state = self.restored
        then = build({**state["config"], "output": str(self.output)}, str(self.output))
        changed = allowed_changes(self.output, then, self.run, ())
        go_on(self.run, self.output, self.tasks, path, state, self.store, self._make, display, changed=changed)

    def _make(self, watcher: Watcher, interrupted: Callable[[], bool]) -> Loop:
        """The loop between verl's servers and workers."""
        run = self.run
        servers = Servers(self.checkpoint_manager)
        extra = partial(extra_inputs, self.reader)
        heat = run.sampling.temperature
        reference = None
        if needs_reference(run):
            reference = Resting(servers, self.ref_policy_wg, "ref", heat, extra)
        learner = VerlLearner(
            Resting(servers, self.actor_rollout_wg, "actor", heat, extra),
            learner_settings(run),
            run.objective,
            seed=run.seed,
            max_completion_length=run.sampling.max_completion_length,
            reference=reference,
            critic=self._critic(servers, extra) if self.use_critic else None,
            sampler_cap=parts.sampler_cap(run),
        )
        check_weights(learner, self.reader, next(iter(self.tasks.values())).train[0], run)
        sampler = VerlSampler(self.reader, self.agent_loop_manager, max_prompt_length=run.sampling.max_prompt_length)
        stop = self.output / STOP
        vocab_size = self.reader.vocab_size
        stopped = lambda: interrupted() or stop.exists()  # noqa: E731
        return wired(run, self.tasks, Awake(sampler, servers), learner, vocab_size, watcher, stopped)

    def _critic(self, servers: Servers, extra: Any) -> VerlCritic:
        workers = Resting(servers, self.critic_wg, "train", self.run.sampling.temperature, extra)
        return VerlCritic(workers, self.run.critic.clip_value)

    def _told(self) -> _Told:
        return _Told(self.output if self.launched else None)

    def on_step_end(self) -> None:
        raise AssertionError("verl's own steps are not taken")

    def on_sample_end(self) -> None:
        raise AssertionError("verl's own sampling is not used")


class _Told:
    """Sends a user's error to the command that started the run: for `rollwise train`, to the folder of the run; else
    with the exception itself, its settings spelled as that command does."""

    def __init__(self, output: Path | None) -> None:
        self.output = output

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not isinstance(error, UserError):
            return
        if self.output is None:
            raise Refused(in_a_command(str(error))) from error
        (self.output / ERROR).write_text(f"{error}\n", encoding="utf-8")


def check_weights(learner: StepLearner, reader: Policy, prompt: Prompt, run: RunConfig) -> None:
    """Raises UserError where the workers' model has no log-prob for what follows a prompt."""
    sampling = Sampling(temperature=run.sampling.temperature, max_completion_length=1)
    probe = Rollout(
        group_uid=prompt.group_uid,
        member=0,
        prompt_ids=reader.encode(prompt, run.sampling.max_prompt_length),
        completion_ids=np.array([min(reader.eos_ids)], dtype=IDS),
        logprobs=np.zeros(1, dtype=LOGP),
        sampling=sampling,
        stop=StopReason.eos,
        text="",
        birth_step=0,
        images=prompt.images,
    )
    if np.isnan(learner.logprobs([probe])[0]).any():
        raise UserError(f"model: {run.model} gives log-probs that are not finite; give a sound checkpoint")


def extra_inputs(reader: Policy, rollout: Rollout) -> dict[str, Any]:
    """What a rollout with pictures needs beside its ids: positions [axes + 1, P + T], those of the text first, where
    the model has positions in space; and the tensors of its pictures."""
    assert reader.vision is not None
    out: dict[str, Any] = dict(reader.vision.inputs(rollout.images))
    if reader.axes > 1:
        prompt = reader.positions(rollout.prompt_ids, rollout.images)
        behind = int(prompt.max()) + 1 + np.arange(rollout.length)
        space = np.concatenate([prompt, np.tile(behind, (len(prompt), 1))], axis=1)
        text = np.arange(space.shape[1])[None]
        out["position_ids"] = torch.from_numpy(np.concatenate([text, space]))
    return out
