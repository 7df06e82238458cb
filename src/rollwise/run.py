"""Start a run, or resume one. What its folder holds:

config.yaml  events.jsonl  clock.jsonl  [rollouts.jsonl]  checkpoints/step_N/  report.html
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from rollwise import __version__, checkpoint
from rollwise.advice import advice
from rollwise.assemble import check_data, heldout_used, load_model, load_tasks, make_loop
from rollwise.audit.golds import check_golds
from rollwise.config import RunConfig, build, leaves, read_yaml, title, to_tree
from rollwise.errors import UserError, nearest, show
from rollwise.events import EVENTS, SCHEMA, Mark
from rollwise.folder import (
    Display,
    LocalStore,
    RunFolder,
    Store,
    claim,
    free_output,
    interruptible,
    lock,
    logs_fit,
    marks,
    write_config,
)
from rollwise.lengths import check_lengths, fitting
from rollwise.loop import Loop, Watcher
from rollwise.parts import replay_capacity
from rollwise.policy import Policy
from rollwise.records import Prompt
from rollwise.starters import bundled
from rollwise.tasks import PromptSource, Task, anchored
from rollwise.tasks.rewarded import Rewarded, user_rewards

# Settings that may differ between a run and its continuation: none changes what a step does.
MAY_CHANGE = ("budget.", "checkpoint.", "log.", "eval.seconds", "reward.seconds", "verl")

# What may begin anew when a run goes on, and the settings that may change with it.
ANEW = {
    "optimizer": ("learner.", "critic."),
    "replay": ("replay.",),
    "curriculum": ("curriculum.", "task", "task_args", "tasks"),
    "allocation": ("allocation.", "prompts_per_step", "group_size"),
    "objective": ("objective.", "advantage.", "reward.", "sampling.", "guard."),
}


def derived(config: RunConfig) -> dict[str, Any]:
    """What follows from the settings; shown at the start and stored."""
    out: dict[str, Any] = {
        "rollouts_per_round": config.prompts_per_step * config.group_size,
        "updates_per_step": config.learner.updates_per_batch * config.learner.epochs,
    }
    if config.replay.kind in ("recent", "hybrid", "rollouts", "success"):
        out["replay_capacity"] = replay_capacity(config)
    return out


def start(config: RunConfig, display: Display) -> tuple[Path, dict[str, Any]]:
    """Train from the beginning. Everything is checked before the folder is made. Returns folder and stop event."""
    _check_local(config)
    named, output = config.output is not None, free_output(config)
    anchor_paths(config)
    tasks, policy = _load(config, display)
    output, held = claim(config, output, named=named)
    with held:
        config.output = str(output)
        return output, _from_the_beginning(config, output, tasks, policy, display)


def _load(config: RunConfig, display: Display) -> tuple[dict[str, Task], Policy]:
    """Data and model, checked against each other."""
    tasks = checked_tasks(config, display)
    display.note(f"loading {config.model}")
    policy = load_model(config)
    tasks = fitted(config, policy, tasks, display.note)
    for name, task in tasks.items():
        check_prompts(config, policy, name, task)
        if heldout_used(config, task) < config.eval.prompts:
            display.note(
                f"{name} has {len(task.heldout)} held-out rows, all used (eval.prompts is {config.eval.prompts})"
            )
    return tasks, policy


def checked_tasks(config: RunConfig, display: Display) -> dict[str, Task]:
    """The data of a run, and what its user should know of it, as far as that can be said without the model."""
    tasks = load_tasks(config, display.note)
    check_data(config, tasks)
    for task in tasks.values():
        for note in (*task.notes, check_golds(task.own if isinstance(task, Rewarded) else task)):
            if note:
                display.note(note)
    made_up = [name for name, task in tasks.items() if task.train.generated]
    for note in advice(config, {name: len(task.train) for name, task in tasks.items()}, made_up):
        display.note(note)
    return tasks


def _from_the_beginning(
    config: RunConfig, output: Path, tasks: dict[str, Task], policy: Policy, display: Display
) -> dict[str, Any]:
    write_config(config, output)
    return begin(config, output, tasks, LocalStore(policy), partial(make_loop, config, tasks, policy), display)


Make = Callable[[Watcher, Callable[[], bool]], Loop]
"""The loop of a run, given who is told what happens and what asks whether to stop."""


def begin(
    config: RunConfig, output: Path, tasks: Mapping[str, Task], store: Store, make: Make, display: Display
) -> dict[str, Any]:
    """Train from the first step on whatever engine `make` and `store` speak for. Returns the stop event."""
    start_of_logs = {"events": Mark(), "clock": Mark(), "rollouts": Mark()}
    with (
        RunFolder(
            output, config, store, fingerprint(config, tasks), derived(config), display, at=start_of_logs
        ) as folder,
        interruptible(display) as interrupted,
    ):
        loop = folder.loop = make(folder, interrupted)
        folder.events.write(
            {
                "event": "run",
                "schema": SCHEMA,
                "version": __version__,
                "method": config.method,
                "task": title(config),
                "model": config.model,
                "seed": config.seed,
                "config": {k: v for k, v in to_tree(config).items() if k != "output"},
                "derived": derived(config),
            }
        )
        return folder.finish(loop)


def go_on(
    config: RunConfig,
    output: Path,
    tasks: Mapping[str, Task],
    path: Path,
    state: dict[str, Any],
    store: Store,
    make: Make,
    display: Display,
    *,
    changed: dict[str, Any],
    anew: Sequence[str] = (),
) -> dict[str, Any]:
    """Train on from the `state` of the checkpoint at `path`, whose weights the engine has; `changed` are the settings
    that are not those of the state. Raises UserError where it does not fit the run, or the data is not what it was.
    Returns the stop event."""
    data = fingerprint(config, tasks)
    with _fitting(path):
        (rows, *rewards), (rows_then, *rewards_then) = data.split("+"), state["data"].split("+")
        logs = marks(state["logs"])
        if (step := state["loop"]["step"]) != int(path.name.rpartition("_")[2]) or type(step) is not int:
            raise ValueError(f"its state is that of step {show(step)}")
    if rewards != rewards_then and "objective" not in anew:
        raise UserError(
            f"{output}: its file of reward functions has changed since it began; bring the old one back, start "
            "anew, or go on with the new one with --resume-reset objective"
        )
    if rows != rows_then and "curriculum" not in anew:
        raise UserError(
            f"{output}: its data has changed since it began; bring the old rows back, start anew, or train on "
            "the new ones with --resume-reset curriculum"
        )
    with (
        RunFolder(output, config, store, data, derived(config), display, at=logs) as folder,
        interruptible(display) as interrupted,
    ):
        loop = folder.loop = make(folder, interrupted)
        with _fitting(path):
            loop.load_state_dict(state["loop"], anew=set(anew) - {"optimizer"})
            folder.best = tuple(state["best"]) if state["best"] else None
        if "optimizer" in anew:  # its counters, and with them the learning rate, go on
            loop.reset["optimizer"]()
        if changed or anew:
            folder.events.write({"event": "config", "step": loop.step, "changed": changed, "anew": list(anew)})
        write_config(config, output)
        if anew:  # saved at once, so that what was allowed holds however the run ends
            folder.checkpoint(loop.step)
        folder.saved_at = loop.step
        display.note(f"resumed {output} at step {loop.step}")
        return folder.finish(loop)


def anchor_paths(config: RunConfig) -> None:
    """Local paths made absolute, so that the run can be resumed from any folder."""
    if config.model != "starter" and Path(config.model).expanduser().is_dir():
        config.model = str(Path(config.model).expanduser().resolve())
    config.reward.function = config.reward.function and _absolute(config.reward.function)
    config.reward.functions = {_absolute(f): weight for f, weight in config.reward.functions.items()}
    config.task_args = anchored(config.task_args)
    for entry in config.tasks.values():
        entry.args = anchored(entry.args)


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def resume(
    output: Path, changes: Callable[[dict[str, Any]], RunConfig], display: Display, anew: Sequence[str] = ()
) -> dict[str, Any]:
    """Continue a run from its newest checkpoint that verifies. `changes` lays new settings over the stored ones; those
    that would change what a step does are refused, except those of the parts that begin `anew`. Returns the stop
    event."""
    for name in anew:
        if name not in ANEW:
            raise UserError(f"--resume-reset: unknown part '{name}'; {nearest(name, ANEW)}")
    config, stored = resumed_config(output, changes)
    _check_local(config)
    allowed_changes(output, stored, config, anew)
    with lock(output):
        for name in checkpoint.bring_back(output / "checkpoints"):
            display.note(f"{name} was to be written anew when the run was killed; it is as it was before")
        if not checkpoint.steps(output / "checkpoints"):
            check_none_lost(output)
            display.note(f"{output} has no checkpoint yet: it begins again")
            tasks, policy = _load(config, display)
            return _from_the_beginning(config, output, tasks, policy, display)
        path, notes = checkpoint.newest(
            output / "checkpoints", lambda p: logs_fit(output, checkpoint.load(p)["logs"], config)
        )
        for note in notes:
            display.note(note)
        with _fitting(path):
            state = checkpoint.load(path)
            then = build({**state["config"], "output": str(output)}, str(path))
        changed = allowed_changes(output, then, config, anew)
        tasks = load_tasks(config, display.note)
        check_data(config, tasks)
        policy = load_model(config, path / "model")
        tasks = fitted(config, policy, tasks, display.note)
        make = partial(make_loop, config, tasks, policy)
        return go_on(config, output, tasks, path, state, LocalStore(policy), make, display, changed=changed, anew=anew)


@contextmanager
def _fitting(path: Path) -> Iterator[None]:
    """What a checkpoint that is not of this run raises, as a line of its own."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: does not fit this run ({error})") from None


def stored_config(output: Path) -> RunConfig:
    """The settings of a run folder. Raises UserError where it is none."""
    if not (output / "config.yaml").is_file():
        raise UserError(f"{output}: not a run folder (no config.yaml); give the folder of a run")
    return build(read_yaml(output / "config.yaml"), str(output / "config.yaml"))


def resumed_config(output: Path, changes: Callable[[dict[str, Any]], RunConfig]) -> tuple[RunConfig, RunConfig]:
    """The settings with which a run goes on, and those it had, both in this folder."""
    stored = stored_config(output)
    config = changes(to_tree(stored))
    if config.output != stored.output:
        raise UserError(f"{output}: a resumed run stays in its folder; leave output out")
    config.output = stored.output = str(output)
    return config, stored


def _check_local(config: RunConfig) -> None:
    """That the run is this process's."""
    if config.backend != "local":
        raise UserError(f"backend is {config.backend}; this is the local engine, set backend=local")


def fingerprint(config: RunConfig, tasks: Mapping[str, Task]) -> str:
    """A hash over the prompts and answers of the run's data, as many rows as are checked at its start, and the hash of
    each file of reward functions, with plus signs."""
    digest = hashlib.sha256()
    for name, task in tasks.items():
        for source, used in ((task.train, len(task.train)), (task.heldout, heldout_used(config, task))):
            digest.update(f"{name} {used}".encode())
            for prompt in checked_rows(source, used):
                digest.update(json.dumps(prompt.to_json(), sort_keys=True).encode())
    rewards = user_rewards(tasks)
    return "+".join([digest.hexdigest(), *(rewards.digests if rewards else ())])


def checked_rows(source: PromptSource, used: int) -> Iterator[Prompt]:
    """All of a data set of up to 20,000 rows, as many evenly spread rows of a larger one, the first 1,000 of a
    generated task."""
    most = min(used, 1_000 if source.generated else PROMPTS_CHECKED)
    stride = 1 if source.generated else max(1, used // most)
    return (source[i * stride] for i in range(most))


def check_none_lost(output: Path) -> None:
    """That a run without checkpoints never had one: beginning again would write over its logs. Raises UserError."""
    if (output / "checkpoints").exists() and not (output / "checkpoints").is_dir():
        raise UserError(f"{output / 'checkpoints'}: is no folder; bring the folder of that name back")
    if not (output / EVENTS).is_file():
        return
    with (output / EVENTS).open("rb") as lines:
        try:  # what the run began with: the settings stored now may be those of this resume, cut short
            every = json.loads(next(lines, b""))["config"]["checkpoint"]["every"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        done = sum(line.startswith(b'{"event":"step"') for line in lines)
    if every and done > every:  # the one after `every` begins when that checkpoint is there
        raise UserError(
            f"{output}: its {done:,} steps had checkpoints every {every}, and none is there; bring its folder "
            "`checkpoints` back, or start anew in another folder"
        )


def allowed_changes(
    output: Path, stored: RunConfig, config: RunConfig, anew: Sequence[str]
) -> dict[str, tuple[Any, Any]]:
    """What differs. Raises UserError where it may not."""
    changed = _changed(stored, config)
    free = (*MAY_CHANGE, *(prefix for name in anew for prefix in ANEW[name]))
    refused = [k for k in changed if not k.startswith(free)]
    if refused:
        name = refused[0]
        was, now = changed[name]
        part = next((p for p, prefixes in ANEW.items() if name.startswith(prefixes)), None)
        way = f"; --resume-reset {part} allows it" if part and stored.backend == "local" else ""
        raise UserError(
            f"{output}: {name} was {was} and would be {now}; a resumed run keeps its settings "
            f"(free to change: {', '.join(m.rstrip('.') for m in MAY_CHANGE)}){way}"
        )
    return changed


def _changed(a: RunConfig, b: RunConfig) -> dict[str, tuple[Any, Any]]:
    one, two = leaves(to_tree(a)), leaves(to_tree(b))
    return {k: (one.get(k), two.get(k)) for k in sorted(one.keys() | two.keys()) if one.get(k) != two.get(k)}


PROMPTS_CHECKED = 20_000


def fitted(config: RunConfig, policy: Policy, tasks: dict[str, Task], note: Callable[[str], None]) -> dict[str, Task]:
    """The tasks without rows whose prompts are too long, where the settings ask for that; `note` is told of them."""
    if config.sampling.overlong_prompts == "error":
        return tasks
    encode = partial(policy.encode, limit=config.sampling.max_prompt_length)
    out, notes = fitting(tasks, encode, heldout=config.eval.prompts)
    for line in notes:
        note(line)
    return out


def check_prompts(config: RunConfig, policy: Policy, name: str, task: Task) -> None:
    """Prompts fit, before the folder is made. One that is found later ends the run with a line of its own."""
    advice = ", or leave such rows out with sampling.overlong_prompts=skip"
    if task.train.generated:
        advice = " (your settings or the recipe of its starter say so)" if bundled(config.model, config.task) else ""
    elif config.sampling.overlong_prompts == "skip":
        return  # every row was encoded
    sides = ((task.train, len(task.train)), (task.heldout, heldout_used(config, task)))
    prompts = chain.from_iterable(checked_rows(source, used) for source, used in sides)
    check_lengths(name, prompts, partial(policy.encode, limit=config.sampling.max_prompt_length), advice)
