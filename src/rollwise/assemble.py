"""From settings to parts: the only place, with curriculum/make.py, that knows which class a `kind` names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rollwise import parts
from rollwise.config import RunConfig, build, data_sets, expand_aliases, merge, named, nest
from rollwise.config.effect import check_read
from rollwise.config.pilot import optimizer_updates, pilot_rollouts
from rollwise.errors import UserError, nearest
from rollwise.methods import method
from rollwise.starters import bundled, starter_path, starter_recipe
from rollwise.state import as_now
from rollwise.tasks import make_task, task_names
from rollwise.tasks.named import Named
from rollwise.tasks.rewarded import user_rewards, with_rewards

if TYPE_CHECKING:
    from rollwise.evaluate import Sampler
    from rollwise.learner.base import StepLearner
    from rollwise.loop import Loop, Watcher
    from rollwise.policy import Policy
    from rollwise.records import Prompt
    from rollwise.tasks import Task
    from rollwise.verify.scoring import Judges

Tree = dict[str, Any]


def resolve(layers: list[tuple[str, Tree]], *, shared: bool = False) -> RunConfig:
    """The config of named user layers (file, overrides), over the method's and the starter's settings.

    Raises UserError naming the layer and key at fault; also for a setting that nothing reads, unless the layers are
    `shared` by several methods.
    """
    user: Tree = {}
    given: list[tuple[str, Tree]] = []
    for source, tree in layers:
        expanded = expand_aliases(tree, source)
        _check_layer(expanded, source)
        given.append((source, expanded))
        user = merge(user, expanded)
    last = layers[-1][0] if layers else "config"
    base = _defaults_of_tasks(user, last)
    for dotted, value in method(str(user.get("method", "grpo"))).settings.items():
        base = merge(base, nest(dotted, value))
    config = build(merge(base, user), last)
    for source, tree in given if not shared else ():
        check_read(config, tree, source)
    return config


def _check_layer(tree: Tree, source: str) -> None:
    """Name the layer a fault stands in, before the layers are merged."""
    build(tree, source, together=False)


def _defaults_of_tasks(user: Tree, source: str) -> Tree:
    """The recipe of the starter; of several data sets, each with the task's own recipe for its `args`."""
    given = build(user, source, together=False)
    sets = data_sets(given)
    tasks = [str(entry.task) for entry in sets.values()]
    task = user.get("task", tasks[0])
    starter = bundled(given.model, str(task))
    for name in [task, *tasks]:
        if name not in task_names():
            raise UserError(f"{source}: unknown task '{name}'; {nearest(name, task_names())}")
    base: Tree = starter_recipe(task) if starter else {}
    if not named(given):
        return base
    base.pop("task_args", None)
    recipes = {name: starter_recipe(name) if starter else {} for name in set(tasks)}
    args = {name: recipe.get("task_args", {}) for name, recipe in recipes.items()}
    lengths = [recipe["sampling"] for recipe in recipes.values() if "sampling" in recipe]
    if starter:  # room for the longest of them
        base["sampling"] = {**base["sampling"], **{k: max(r[k] for r in lengths) for k in lengths[0]}}
    filled = {name: {"task": entry.task, "args": args[str(entry.task)]} for name, entry in sets.items()}
    return {**base, "task": task, "tasks": filled}


def load_tasks(config: RunConfig, note: Callable[[str], None] | None = None) -> dict[str, Task]:
    """The data sets of a run by name, which is also the `task` of their prompts where there are several; scored by the
    user's functions where the config names any. `note` is told what the user should know of those."""
    return with_rewards(_own_tasks(config), config.reward, note)


def _own_tasks(config: RunConfig) -> dict[str, Task]:
    starter = bundled(config.model, config.task)
    if not named(config):
        return {config.task: make_task(config.task, config.task_args, starter=starter)}
    out: dict[str, Task] = {}
    for name, entry in data_sets(config).items():
        try:
            out[name] = Named(name, make_task(str(entry.task), entry.args, starter=starter))
        except UserError as error:
            own = str(error).replace("task_args.", f"tasks.{name}.args.")
            raise UserError(own if own != str(error) else f"tasks.{name}: {error}") from None
    return out


def judges(tasks: Mapping[str, Task]) -> Judges:
    """Of each data set by name; of a single one for whatever its prompts call themselves."""
    each = {name: task.judge for name, task in tasks.items()}
    return each if len(each) > 1 else next(iter(each.values()))


def load_model(config: RunConfig, folder: Path | None = None) -> Policy:
    """The policy of a config, or the one saved in `folder`."""
    import torch

    from rollwise.policy import load_policy

    cores = os.cpu_count() or 1
    if config.threads > cores:
        raise UserError(f"threads is {config.threads}; this machine has {cores} cores")
    torch.set_num_threads(config.threads)
    name = str(folder or (starter_path(config.task) if config.model == "starter" else config.model))
    policy = load_policy(
        name,
        device=config.device,
        dtype=config.dtype,
        min_pixels=config.images.min_pixels,
        max_pixels=config.images.max_pixels,
        cache_bytes=config.images.cache_mb * 2**20,
    )
    if config.learner.freeze_vision:
        policy.freeze_vision()
    parts.check_sampler(config, policy)
    return policy


def make_loop(
    config: RunConfig, tasks: Mapping[str, Task], policy: Policy, watcher: Watcher, interrupted: Callable[[], bool]
) -> Loop:
    """All parts of a run on the local engine, wired."""
    from rollwise.learner.learner import Learner

    reference = None
    if needs_reference(config):
        reference = load_model(config)
        reference.model.requires_grad_(False)
    learner = Learner(
        policy,
        learner_settings(config),
        config.objective,
        seed=config.seed,
        max_completion_length=config.sampling.max_completion_length,
        reference=reference,
        critic=_critic(config, policy),
        sampler_cap=parts.sampler_cap(config),
    )
    sampler = parts.sampler(config, policy, lambda: learner.updates)
    return wired(config, tasks, sampler, learner, policy.vocab_size, watcher, interrupted)


def needs_reference(config: RunConfig) -> bool:
    """Whether the frozen start model takes part."""
    return config.objective.kl_coef > 0 or config.advantage.kl_in_reward > 0


def wired(
    config: RunConfig,
    tasks: Mapping[str, Task],
    sampler: Sampler,
    learner: StepLearner,
    vocab_size: int,
    watcher: Watcher,
    interrupted: Callable[[], bool],
) -> Loop:
    """All parts of a run between an engine's sampler and its learner."""
    from rollwise.evaluate import evaluate
    from rollwise.guard import Guard
    from rollwise.ledger import Ledger
    from rollwise.loop import Loop
    from rollwise.records import Sampling
    from rollwise.reflection import patterns
    from rollwise.verify.scoring import form_groups

    sampling = Sampling(
        temperature=config.sampling.temperature,
        top_p=config.sampling.top_p,
        max_completion_length=config.sampling.max_completion_length,
    )
    replay = parts.replay(config)
    rewards = user_rewards(tasks)
    return Loop(
        curriculum=_curriculum(config, tasks),
        allocation=parts.allocation(config),
        generate=lambda requests, step: form_groups(
            requests,
            sampler.generate(requests, sampling, run_seed=config.seed, step=step),
            judges(tasks),
            parts.shaping(config),
        ),
        replay=replay,
        estimator=parts.estimator(config),
        learner=learner,
        ledger=Ledger(),
        guard=Guard(config.guard),
        evaluate=partial(
            evaluate,
            sampler,
            heldout_prompts(config, tasks),
            judges(tasks),
            sampling=eval_sampling(config),
            samples=config.eval.samples,
            seed=config.eval.seed,
            patterns=patterns(config.log.reflection),
            seconds=config.eval.seconds,
            at_once=config.sampling.max_rows,
        ),
        patterns=patterns(config.log.reflection),
        measured=rewards.take if rewards else dict,
        budget=config.budget,
        eval=config.eval,
        checkpoint_every=config.checkpoint.every,
        watcher=watcher,
        vocab_size=vocab_size,
        tasks=list(tasks) if len(tasks) > 1 else (),
        reset={"optimizer": learner.reset, "replay": as_now(replay)},
        interrupted=interrupted,
    )


def learner_settings(config: RunConfig) -> Any:
    """The learner's settings, its mini-batches sized as the allocation asks."""
    pilot, size, updates = config.allocation.pilot, config.group_size, config.learner.updates_per_batch
    if config.allocation.kind == "pilot":
        pilots = pilot_rollouts(pilot.rollouts, pilot.share, size)
        sized_by = "group" if pilot.train_on == "commit" else pilot.updates  # the commits alone are the batch then
        updates = optimizer_updates(updates, size, pilots, sized_by)
    return replace(config.learner, updates_per_batch=updates)


def eval_sampling(config: RunConfig) -> Any:
    from rollwise.records import Sampling

    return Sampling(
        temperature=config.eval.temperature,
        top_p=config.eval.top_p,
        max_completion_length=config.sampling.max_completion_length,
    )


def check_data(config: RunConfig, tasks: Mapping[str, Task]) -> None:
    """Enough rows for the settings. Raises UserError."""
    for name, task in tasks.items():
        if len(task.train) < 1:
            raise UserError(f"task {name}: no training rows; give at least one")
        if len(task.heldout) < 1:
            raise UserError(f"task {name}: no held-out rows; give more rows, or a file of them")


def heldout_used(config: RunConfig, task: Task) -> int:
    """Held-out prompts of a task that are evaluated: as many as asked for, or all there are."""
    return min(config.eval.prompts, len(task.heldout))


def heldout_prompts(config: RunConfig, tasks: Mapping[str, Task]) -> list[Prompt]:
    """The prompts of an evaluation, task by task."""
    return [task.heldout[i] for task in tasks.values() for i in range(heldout_used(config, task))]


def _curriculum(config: RunConfig, tasks: Mapping[str, Task]) -> Any:
    from rollwise.curriculum.make import make_curriculum

    weights = {name: entry.weight for name, entry in data_sets(config).items()}
    return make_curriculum(config.curriculum, {n: t.train for n, t in tasks.items()}, weights, seed=config.seed)


def _critic(config: RunConfig, policy: Policy) -> Any:
    """A critic on the policy, or on a copy of the start model."""
    from rollwise.learner.critic import Critic

    settings = config.critic
    if settings.kind == "none":
        return None
    own = settings.kind == "model"
    lr = settings.lr if settings.lr is not None else 10 * config.learner.lr
    return Critic(load_model(config) if own else policy, config.learner, own=own, lr=lr, clip_value=settings.clip_value)
