"""A verl user's own settings as ours.

Two commands lead here. `rollwise train --backend verl` names the config file of its run folder. A verl user adds
`trainer.v1.trainer_mode=rollwise +rollwise.method=popo` to a command of his own; then, later over earlier: the method's
settings, what his command says in verl's words, and his `+rollwise` keys.

Sizes, sampling, optimizer and evaluation are taken as verl has them, its defaults included; what a method decides
(clipping, KL, aggregation, discounts) only where it is not at verl's default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rollwise.assemble import resolve
from rollwise.backends.verl.classes import OLD, UNDERSTOOD, UNREAD, check_counts
from rollwise.backends.verl.table import ACTOR, ROLLOUT, row_of
from rollwise.config import RunConfig, build, expand_aliases, leaves, merge, nest, read_yaml, to_tree
from rollwise.errors import UserError, show

Flat = Mapping[str, Any]
REDUCTION = {"token-mean": "token", "seq-mean-token-mean": "sequence", "seq-mean-token-sum-norm": "constant"}
ESTIMATOR = {
    "group": "grpo",
    "rloo": "rloo",
    "reinforce++": "reinforce_plus_plus",
    "reinforce++-baseline": "reinforce_plus_plus_baseline",
    "gae": "gae",
}
_DOTTED = re.compile(r"(?<![\w.+/])[a-z_]+(?:\.[a-z_]+)+")  # how a setting of ours stands in a line
SOURCE = "the command"
OURS = "+rollwise"

# verl's key, ours, and verl's default where the method decides unless the key says otherwise.
PLAIN: tuple[tuple[str, str, Any], ...] = (
    (f"{ACTOR}.clip_ratio_low", "objective.clip_low", 0.2),
    (f"{ACTOR}.clip_ratio_high", "objective.clip_high", 0.2),
    (f"{ACTOR}.clip_ratio_c", "objective.dual_clip", 3.0),
    (f"{ACTOR}.entropy_coeff", "objective.entropy_coef", 0),
    ("algorithm.gamma", "advantage.gamma", 1.0),
    ("algorithm.lam", "advantage.gae_lambda", 1.0),
    ("critic.cliprange_value", "critic.clip_value", 0.5),
)
ALWAYS: tuple[tuple[str, str], ...] = (
    ("actor_rollout_ref.model.path", "model"),
    ("data.max_prompt_length", "sampling.max_prompt_length"),
    ("data.max_response_length", "sampling.max_completion_length"),
    ("data.train_batch_size", "prompts_per_step"),
    (f"{ROLLOUT}.n", "group_size"),
    (f"{ROLLOUT}.temperature", "sampling.temperature"),
    (f"{ROLLOUT}.top_p", "sampling.top_p"),
    (f"{ROLLOUT}.val_kwargs.n", "eval.samples"),
    (f"{ROLLOUT}.val_kwargs.top_p", "eval.top_p"),
    (f"{ACTOR}.ppo_epochs", "learner.epochs"),
    (f"{ACTOR}.ppo_max_token_len_per_gpu", "learner.micro_batch_tokens"),
    (f"{ACTOR}.optim.lr", "learner.lr"),
    (f"{ACTOR}.optim.weight_decay", "learner.weight_decay"),
    (f"{ACTOR}.optim.clip_grad", "learner.max_grad_norm"),
    ("trainer.device", "device"),
)


def from_verl(tree: Mapping[str, Any]) -> RunConfig:
    """Our settings, from verl's whole config as a plain nested mapping. Raises UserError in one line for a setting that
    contradicts the method, or that Rollwise's trainer would not honour."""
    own = expand_aliases(dict(tree.get("rollwise") or {}), OURS)
    if "config" in own:
        path = Path(str(own["config"]))
        return build(read_yaml(path), str(path))
    if "method" not in own:
        raise UserError("rollwise.method is missing; add +rollwise.method=popo (see `rollwise methods`)")
    own.pop("resume", None)
    flat = leaves({k: v for k, v in tree.items() if k != "rollwise"})
    _check_unread(flat)
    check_counts(flat)
    _check_own(own)
    theirs = _understood(flat, own)
    config = resolve([(SOURCE, theirs), (OURS, own)])
    if config.critic.kind != "none":  # which the method decides; verl's is a model of its own
        critic = {"kind": "model", "lr": flat.get("critic.optim.lr", config.critic.lr)}
        config = resolve([(SOURCE, merge(theirs, {"critic": critic})), (OURS, own)])
    _check_models(flat, config)
    return config


def in_a_command(line: str) -> str:
    """A line of the parts, which name settings of ours, with their names in a command of verl's."""
    known = leaves(to_tree(RunConfig()))

    def spelled(match: re.Match[str]) -> str:
        name = match[0]
        row = row_of(name) if name in known else None
        if row is not None and row.theirs and not row.own:
            return row.theirs[0].lstrip("+")
        return f"{OURS}.{name}" if row is not None or name.startswith("task_args.") else name

    line = line.replace("sampling.overlong_prompts=skip", "data.filter_overlong_prompts=True")
    return _DOTTED.sub(spelled, line)


def _check_unread(flat: Flat) -> None:
    for name, unread in UNREAD.items():
        value = flat.get(name, unread.default)
        if value != unread.default and not (value is None or (value == [] and unread.default == {})):
            raise UserError(f"{name} is {show(value)}, which Rollwise's trainer does not read: {unread.instead}")
    for name, value in flat.items():
        if name.startswith(OLD) and name not in UNDERSTOOD and name != "reward_model.num_workers" and value:
            raise UserError(f"{name} is {show(value)}, which Rollwise's trainer does not read; see +rollwise.reward")
    if flat.get("trainer.resume_mode") == "resume_path":
        raise UserError("trainer.resume_mode is resume_path; a run goes on from its own folder, with auto")


def _check_own(own: Mapping[str, Any]) -> None:
    """Settings that verl's engines have taken from keys of their own by now."""
    for name in leaves(own):
        row = row_of(name)
        if row is not None and row.theirs and not row.own:
            raise UserError(f"+rollwise.{name}: in a command of verl's this is {row.theirs[0].lstrip('+')}; set that")
    for name in ("output", "backend", "verl"):
        if name in own:
            raise UserError(f"+rollwise.{name}: is verl's to say in a command of verl's; leave it out")


def _understood(flat: Flat, own: Mapping[str, Any]) -> dict[str, Any]:
    """What the command says in verl's words, as our keys."""
    found: dict[str, Any] = {"backend": "verl", "output": str(Path(str(flat["trainer.default_local_dir"])).absolute())}
    found |= {ours: flat[name] for name, ours in ALWAYS if flat.get(name) is not None}
    found |= {ours: flat[name] for name, ours, default in PLAIN if flat.get(name, default) not in (default, None)}
    if flat.get(f"{ACTOR}.clip_ratio", 0.2) != 0.2:
        found = dict.fromkeys(("objective.clip_low", "objective.clip_high"), flat[f"{ACTOR}.clip_ratio"]) | found
    for part in (_data, _loss, _schedule, _evaluation):
        found |= part(flat)
    found["dtype"] = "float32" if flat.get(f"{ROLLOUT}.dtype") in ("float32", "float") else "bfloat16"
    if flat.get("data.seed") is not None and "seed" not in own:
        found["seed"] = flat["data.seed"]
    if not leaves(own.get("budget") or {}):
        found["budget.steps"] = _steps(flat)
    out: dict[str, Any] = {}
    for name, value in found.items():
        out = merge(out, nest(name, value, SOURCE))
    return out


def _data(flat: Flat) -> dict[str, Any]:
    """The rows, and what judges them."""
    columns = {
        part: flat[key]
        for key, part, default in (
            ("data.prompt_key", "prompt", "prompt"),
            ("data.reward_fn_key", "source", "data_source"),
            ("data.image_key", "images", "images"),
        )
        if flat.get(key, default) != default
    }
    args: dict[str, Any] = {"data": _files(flat["data.train_files"]), "heldout_data": _files(flat["data.val_files"])}
    out: dict[str, Any] = {"task": "data", "task_args": {**args, **({"map": columns} if columns else {})}}
    out["sampling.overlong_prompts"] = "skip" if flat.get("data.filter_overlong_prompts") else "error"
    for section in ("custom_reward_function", "reward.custom_reward_function"):
        if path := flat.get(f"{section}.path"):
            if str(path).startswith("pkg://"):
                raise UserError(f"{section}.path is {show(path)}; give the path of a file")
            out["reward.function"] = f"{path}:{flat.get(f'{section}.name') or 'compute_score'}"
    return out


def _files(value: Any) -> Any:
    files = [str(Path(f).expanduser()) for f in ([value] if isinstance(value, str) else value)]
    return files[0] if len(files) == 1 else files


def _loss(flat: Flat) -> dict[str, Any]:
    out: dict[str, Any] = {}
    mode = flat.get(f"{ACTOR}.loss_agg_mode", "token-mean")
    if mode not in REDUCTION:
        raise UserError(f"{ACTOR}.loss_agg_mode is {show(mode)}; one of {', '.join(REDUCTION)}")
    if mode != "token-mean":
        out["objective.reduction"] = REDUCTION[mode]
    if flat.get(f"{ACTOR}.use_kl_loss"):
        out["objective.kl_coef"] = flat[f"{ACTOR}.kl_loss_coef"]
    if flat.get("algorithm.use_kl_in_reward"):
        out["advantage.kl_in_reward"] = flat["algorithm.kl_ctrl.kl_coef"]
    if flat.get("algorithm.norm_adv_by_std_in_grpo") is False:
        out["advantage.scale"] = "none"
    batch, mini = flat["data.train_batch_size"], flat.get(f"{ACTOR}.ppo_mini_batch_size") or 256
    if batch > mini and batch % mini:
        raise UserError(f"{ACTOR}.ppo_mini_batch_size is {mini}; it must divide data.train_batch_size ({batch})")
    return {**out, "learner.updates_per_batch": max(1, batch // mini)}


def _schedule(flat: Flat) -> dict[str, Any]:
    betas = flat.get(f"{ACTOR}.optim.betas") or (0.9, 0.999)
    kind = flat.get(f"{ACTOR}.optim.lr_scheduler_type") or flat.get(f"{ACTOR}.optim.lr_decay_style") or "constant"
    out: dict[str, Any] = {"learner.beta1": betas[0], "learner.beta2": betas[1], "learner.schedule": kind}
    out["learner.warmup_updates"] = max(0, flat.get(f"{ACTOR}.optim.lr_warmup_steps") or 0)
    updates = flat.get(f"{ACTOR}.optim.total_training_steps") or -1
    if kind != "constant" and updates <= 0:
        raise UserError(f"{ACTOR}.optim.total_training_steps is {updates}; give the updates at which {kind} ends")
    return {**out, "learner.schedule_updates": updates} if kind != "constant" else out


def _evaluation(flat: Flat) -> dict[str, Any]:
    """How often, and on how much; -1 is never there, and all of the rows."""
    hot = flat.get(f"{ROLLOUT}.val_kwargs.do_sample")
    return {
        "eval.temperature": flat.get(f"{ROLLOUT}.val_kwargs.temperature", 0) if hot else 0.0,
        "eval.every": _every(flat.get("trainer.test_freq")),
        "eval.prompts": _every(flat.get("data.val_max_samples")) or 10**9,
        "checkpoint.every": _every(flat.get("trainer.save_freq")),
        "checkpoint.keep": _every(flat.get("trainer.max_actor_ckpt_to_keep")) or 10**6,
    }


def _every(number: int | None) -> int | None:
    return number if number is not None and number > 0 else None


def _steps(flat: Flat) -> int:
    """Steps of the command: given, or its epochs over its rows, as verl counts them."""
    if flat.get("trainer.total_training_steps") is not None:
        return int(flat["trainer.total_training_steps"])
    files = _files(flat["data.train_files"])
    rows = sum(_rows(Path(f)) for f in ([files] if isinstance(files, str) else files))
    return max(1, int(flat.get("trainer.total_epochs") or 1) * (rows // int(flat["data.train_batch_size"])))


def _rows(path: Path) -> int:
    if path.suffix == ".parquet" and path.is_file():
        from pyarrow.parquet import ParquetFile

        return int(ParquetFile(path).metadata.num_rows)
    if path.suffix in (".jsonl", ".json") and path.is_file():
        with path.open("rb") as lines:
            return sum(1 for line in lines if line.strip())
    raise UserError(
        f"data.train_files: the rows of {path} are not known; give trainer.total_training_steps, or +rollwise.budget"
    )


def _check_models(flat: Flat, config: RunConfig) -> None:
    """The models that verl loads must be those the method needs."""
    wanted = config.critic.kind != "none"
    method, enabled, estimator = config.method, flat.get("critic.enable"), flat.get("algorithm.adv_estimator")
    there = estimator == "gae" if enabled is None else bool(enabled)
    if wanted != there:
        verl, does = ("loads a", "has none; set it to grpo") if there else ("loads no", "needs one; set it to gae")
        raise UserError(f"algorithm.adv_estimator is {show(estimator)}: verl {verl} critic, and {method} {does}")
    allowed = {"grpo", ESTIMATOR[config.advantage.kind]} if not wanted else {"gae"}
    if estimator not in allowed:
        raise UserError(
            f"algorithm.adv_estimator is {show(estimator)}, and the advantage of {method} is its own; "
            f"set {' or '.join(sorted(allowed))}"
        )
    if config.objective.kl_coef > 0 and not flat.get(f"{ACTOR}.use_kl_loss"):
        raise UserError(f"{method} has a KL term in the loss; set {ACTOR}.use_kl_loss=True and {ACTOR}.kl_loss_coef")
    if config.advantage.kl_in_reward > 0 and not flat.get("algorithm.use_kl_in_reward"):
        raise UserError(
            f"{method} has a KL term in the reward; set algorithm.use_kl_in_reward=True and algorithm.kl_ctrl.kl_coef"
        )
