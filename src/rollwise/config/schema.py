"""Every setting, with its type, default, bounds and explanation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


def key(
    default: Any,
    doc: str,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
) -> Any:
    """A config field with its explanation and its bounds."""
    meta = {"doc": doc, "ge": ge, "gt": gt, "le": le, "lt": lt}
    if isinstance(default, dict | list):
        return field(default_factory=lambda: type(default)(default), metadata=meta)
    return field(default=default, metadata=meta)


@dataclass(slots=True, kw_only=True)
class BudgetConfig:
    rollouts: int | None = key(None, "stop before more than this many rollouts are generated for training", gt=0)
    tokens: int | None = key(None, "stop after the round that reaches this many generated completion tokens", gt=0)
    steps: int | None = key(None, "stop after this many steps", gt=0)
    seconds: float | None = key(None, "stop after the step in which this much time has passed", gt=0)


@dataclass(slots=True, kw_only=True)
class VllmConfig:
    dtype: Literal["float32", "bfloat16", "float16"] | None = key(
        None, "precision of vLLM's weights and products; null: as dtype of the run"
    )
    gpu_memory_utilization: float = key(
        0.4, "share of the device's memory (on cpu: of the machine's) for vLLM's weights and cache", gt=0, le=0.95
    )
    enforce_eager: bool = key(False, "run vLLM's model without compilation and CUDA graphs: starts sooner, runs slower")
    args: dict[str, Any] = key({}, "further arguments of vLLM's engine by vLLM's names")  # noqa: RUF009


@dataclass(slots=True, kw_only=True)
class SamplingConfig:
    engine: Literal["torch", "vllm"] = key(
        "torch", "what generates: the trainer's own model, or vLLM on its weights (extra vllm), see docs/engines.md"
    )
    temperature: float = key(1.0, "softmax temperature of training rollouts", ge=1e-3)
    top_p: float = key(1.0, "nucleus mass; 1 keeps the whole distribution", ge=1e-6, le=1)
    max_prompt_length: int = key(1024, "prompt tokens; a longer prompt is never cut", gt=0)
    overlong_prompts: Literal["error", "skip"] = key(
        "error", "rows with a longer prompt: end with an error, or leave out; skip encodes every row once at the start"
    )
    max_completion_length: int = key(1024, "completion tokens, the end token included", gt=0, le=2**20)
    max_rows: int = key(512, "rollouts generated side by side in one call; bounds the KV cache", gt=0)
    importance_cap: float | None = key(
        2.0,
        "engine vllm, backend verl: upper bound of the weight trainer/sampler on each token's loss, which corrects for "
        "the sampler's other arithmetic; null: no such weight; needs top_p 1",
        gt=0,
        le=1e6,
    )
    vllm: VllmConfig = field(default_factory=VllmConfig)


@dataclass(slots=True, kw_only=True)
class ImagesConfig:
    min_pixels: int = key(3136, "a smaller image is scaled up to so many pixels", gt=0, le=2**26)
    max_pixels: int = key(
        401_408, "a larger image is scaled down to so many pixels, 512 tokens of Qwen2.5-VL", gt=0, le=2**26
    )
    cache_mb: int = key(512, "megabytes of images kept ready for the model", gt=0)


@dataclass(slots=True, kw_only=True)
class TaskConfig:
    task: str | None = key(None, "a task of the table; null: the one of this data set's name")
    weight: float = key(
        1.0,
        "share of the training prompts drawn, relative to the other data sets; held-out numbers weigh prompts alike",
        ge=1e-6,
        le=1e6,
    )
    args: dict[str, Any] = key({}, "the task's own settings")  # noqa: RUF009


@dataclass(slots=True, kw_only=True)
class UntilConfig:
    steps: int | None = key(None, "steps of the stage", gt=0)
    epochs: int | None = key(None, "passes over each data set of the stage", gt=0)
    plateau: Literal["accuracy", "reward", "mean_length"] | None = key(
        None, "a mean over the step's fresh rollouts that has stopped rising; see window, min_gain and patience"
    )
    window: int = key(20, "plateau: steps the metric is averaged over", gt=0)
    min_gain: float = key(0.01, "plateau: by how much that average must exceed its best to count as a rise", ge=0)
    patience: int = key(20, "plateau: steps without a rise after which the stage ends", gt=0)


@dataclass(slots=True, kw_only=True)
class StageConfig:
    tasks: dict[str, float] = key(  # noqa: RUF009
        {}, "data sets and their weights by prompt; empty: all, at the weights of `tasks`", ge=1e-6, le=1e6
    )
    until: UntilConfig = field(default_factory=UntilConfig, metadata={"doc": "what ends the stage, whichever is first"})
    reset: list[Literal["optimizer", "replay", "history"]] = key(  # noqa: RUF009
        ["history"],
        "what begins anew with this stage: the optimizer's moments, the stored groups, the curriculum's memory "
        "(posteriors and filters); of no effect in the first",
    )


@dataclass(slots=True, kw_only=True)
class MoppsConfig:
    pool_factor: int = key(8, "candidates for each prompt drawn; those not drawn miss the epoch", gt=0)
    strategy: Literal["topk", "threshold", "uniform"] = key(
        "topk", "drawn success rates nearest to target; at random within target +- band; or any"
    )
    target: float = key(0.5, "success rate aimed at", ge=0, le=1)
    band: float = key(0.2, "threshold: half the width of the interval around target", ge=0, le=1)
    decay: float = key(0.5, "share of old evidence kept when new comes in; 1 forgets nothing", ge=0, le=1)
    prior_correct: float = key(1.0, "alpha of the Beta prior", ge=0.01, le=1e6)
    prior_wrong: float = key(1.0, "beta of the Beta prior", ge=0.01, le=1e6)


@dataclass(slots=True, kw_only=True)
class CurriculumConfig:
    kind: Literal["uniform", "mopps"] = key(
        "uniform", "which prompts are drawn: each once an epoch, or the most promising of a larger pool"
    )
    mopps: MoppsConfig = field(default_factory=MoppsConfig)
    drop_solved: bool = key(False, "leave out prompts whose fresh rollouts of their last epoch were all correct")
    evict_at: float | None = key(None, "leave out prompts from this pass rate of a group on; null: off", gt=0, le=1)
    evict_on: Literal["pilot", "any"] = key("pilot", "groups evict_at looks at: pilots, or whole groups as well")
    retest_epochs: int | None = key(None, "epochs after which an evicted prompt is tried again; null: never", gt=0)
    stages: list[StageConfig] = key([], "stages of the run, in order; the last ends with the budget")  # noqa: RUF009


@dataclass(slots=True, kw_only=True)
class PilotConfig:
    prompts: int | None = key(None, "prompts piloted in a round; null: 3 x prompts_per_step", gt=0)
    rollouts: int | None = key(None, "pilot rollouts of a prompt, the rest of group_size follows; null: by share", ge=2)
    share: float = key(0.25, "pilot rollouts as a share of group_size, rounded down, at least 2", gt=0, le=1)
    p_lower: float = key(0.125, "pilots with a lower pass rate are dropped as too hard for now", ge=0, le=1)
    p_upper: float = key(0.75, "pilots with a higher pass rate are dropped as too easy for now", ge=0, le=1)
    max_age: int = key(4, "steps a pilot may wait for its commit", ge=0)
    pick: Literal["random", "max_variance", "newest", "oldest"] = key(
        "random", "which waiting prompts are committed first; max_variance takes the newest of equals"
    )
    capacity: int | None = key(None, "prompts that may wait, the oldest give way; null: as many as there are", gt=0)
    train_on: Literal["group", "commit"] = key(
        "group", "train on pilot and commit rollouts as one group, or on the commit rollouts alone"
    )
    updates: Literal["group", "commit"] = key(
        "group", "mini-batches sized by the whole group, or by the commit rollouts, which makes more of them"
    )


@dataclass(slots=True, kw_only=True)
class AllocationConfig:
    kind: Literal["fixed", "dynamic", "pilot"] = key(
        "fixed",
        "how many rollouts, and when: one round, or rounds until full, or few for many prompts and more for some",
    )
    max_rounds: int = key(10, "not fixed: generation rounds a step may take", gt=0)
    max_rollouts: int | None = key(None, "not fixed: rollouts a step may take; null leaves it to max_rounds", gt=0)
    on_limit: Literal["partial", "replay", "stop"] = key(
        "partial", "not fixed, limit reached: train on what was found, leave the gap to replay, or end the run"
    )
    surplus: Literal["drop", "carry"] = key("drop", "dynamic: informative groups beyond the batch")
    pilot: PilotConfig = field(default_factory=PilotConfig)


@dataclass(slots=True, kw_only=True)
class ReplayConfig:
    kind: Literal["none", "filter", "recent", "hybrid", "rollouts", "success"] = key(
        "none",
        "none: the batch as generated; filter: without dead groups; recent: dead groups replaced from a FIFO; hybrid: "
        "from a FIFO and a reservoir; rollouts: no dead groups, and stored rollouts drawn by priority; success: a "
        "stored success put into a group that is all wrong",
    )
    capacity: int | None = key(
        None,
        "groups stored (kinds rollouts and success: rollouts); null: capacity_batches x prompts_per_step, or 30000",
        gt=0,
    )
    capacity_batches: int | None = key(None, "batches stored; null: min_age + 8 if min_age else 1", gt=0)
    admit: Literal["informative", "any"] = key("informative", "which fresh groups are stored, and which may be drawn")
    order: Literal["newest", "kl"] = key("newest", "draw the newest first, or the nearest to the current policy by KL")
    min_age: int = key(0, "steps a stored group must have aged before it may be drawn", ge=0)
    max_age: int | None = key(None, "drop what is stored when it is older than this many steps", gt=0)
    max_uses: int | None = key(None, "drop what is stored once it was replayed this often", gt=0)
    short: Literal["keep", "drop"] = key("keep", "slots that cannot be filled: keep dead groups there, or shrink")
    reservoir_capacity: int | None = key(None, "hybrid: groups in the reservoir; null: 4 x prompts_per_step", gt=0)
    reservoir_share: float = key(0.25, "hybrid: share of the empty slots filled from the reservoir", ge=0, le=1)
    reservoir_max_age: int | None = key(None, "hybrid: drop a group of the reservoir older than this many steps", gt=0)
    ratio: float = key(0.5, "rollouts: drawn for each rollout of the step's informative groups", ge=0)
    priority: Literal["advantage", "sigma", "uniform"] = key(
        "advantage", "rollouts: drawn by |advantage|, by the standard deviation of the group's rewards, or evenly"
    )
    alpha: float = key(0.5, "rollouts: weight of a draw is (priority + eps)^alpha", ge=0)
    eps: float = key(1e-6, "rollouts: added to the priority", gt=0)
    warmup_steps: int = key(20, "rollouts: training steps at the start that store, and draw nothing yet", ge=0)
    composition: Literal["fresh", "pool"] = key(
        "fresh", "rollouts: all fresh informative groups and the draw, or as many drawn from fresh and stored alike"
    )
    entries: Literal["rollouts", "groups"] = key("rollouts", "rollouts: what is stored and drawn, ratio counted in it")
    per_prompt: int = key(8, "success: correct rollouts kept for each prompt", gt=0)


@dataclass(slots=True, kw_only=True)
class AdvantageConfig:
    kind: Literal["group", "rloo", "reinforce++", "reinforce++-baseline", "gae"] = key(
        "group",
        "group: reward minus the mean of its group; rloo: minus the mean of the others of its group; reinforce++: "
        "token returns whitened over the batch, -baseline: the group's mean taken off first; gae: from a critic",
    )
    scale: Literal["std", "none", "batch"] = key(
        "std", "group: divide by the standard deviation of the group, or of the whole batch, or by nothing"
    )
    ddof: Literal[0, 1] = key(1, "group: standard deviation over N - ddof")
    eps: float = key(1e-6, "group: added to the standard deviation", ge=0)
    gamma: float = key(1.0, "reinforce++, gae: discount of each token", gt=0, le=1)
    gae_lambda: float = key(1.0, "gae: 1 trusts the rewards only, 0 the critic's next value", ge=0, le=1)
    whiten: bool = key(True, "gae: whiten the advantages over the batch's tokens")
    kl_in_reward: float = key(
        0.0, "rloo, reinforce++, gae: weight of log(policy / frozen start model) of each token in its reward", ge=0
    )
    overlong: Literal["keep", "zero", "mask"] = key(
        "keep", "rollouts cut at max_completion_length: as any other, advantage 0, or left out of the loss"
    )


@dataclass(slots=True, kw_only=True)
class CriticConfig:
    kind: Literal["none", "head", "model"] = key(
        "none", "a linear layer on the policy's hidden states, or a copy of the start model with one; read by gae"
    )
    lr: float | None = key(None, "AdamW learning rate, constant; null: 10 x learner.lr", gt=0)
    clip_value: float | None = key(0.2, "a value moves its loss no further than this from its old one; null: off", gt=0)


@dataclass(slots=True, kw_only=True)
class RewardConfig:
    function: str | None = key(
        None, "file.py:function of yours that gives the score; `reward: file.py:function` is short for it"
    )
    functions: dict[str, float] = key({}, "several of them with their weights")  # noqa: RUF009
    seconds: float | None = key(
        600.0,
        "seconds a call of a function may take (those of all completions at once: for all); it is ended then, and what "
        "it was to score has no verdict; null: no limit",
        gt=0,
    )
    correct_at: float = key(1.0, "where the data has no gold: the score from which an answer counts as correct")
    overlong_buffer: int | None = key(
        None, "tokens before max_completion_length over which a penalty grows linearly to overlong_factor", gt=0
    )
    overlong_share: float | None = key(None, "the same as a share of max_completion_length", gt=0, le=1)
    overlong_factor: float = key(1.0, "penalty of a completion of max_completion_length tokens", gt=0)


@dataclass(slots=True, kw_only=True)
class ObjectiveConfig:
    kind: Literal["clipped", "decoupled", "behaviour", "sequence", "cispo"] = key(
        "clipped",
        "clipped: ratio to the proximal policy; decoupled: that times the weight prox/behaviour; "
        "behaviour: ratio to, and clip around, the behaviour policy; sequence: the mean log-ratio of a rollout, "
        "clipped as one (GSPO); cispo: the ratio bounded as a constant weight of the log-prob",
    )
    clip_low: float = key(0.2, "ratio is clipped below at 1 - clip_low", ge=0, le=1)
    clip_high: float = key(0.28, "ratio is clipped above at 1 + clip_high", ge=0, le=1e6)
    dual_clip: float | None = key(10.0, "bound on the loss of a negative advantage, in units of it; null: off", gt=1)
    behaviour_weight: bool = key(False, "sequence, cispo: times the weight prox/behaviour, as decoupled always is")
    weight_level: Literal["token", "sequence"] = key(
        "token", "the weight of each token, or the product of a rollout's: unbiased, and of high variance"
    )
    weight_cap: float | None = key(None, "upper bound on the weight; null: none", gt=0, le=1e6)
    weight_over_cap: Literal["clamp", "mask"] = key("clamp", "tokens above the cap are clamped or removed")
    reduction: Literal["token", "sequence", "prompt", "constant"] = key(
        "token",
        "token: mean over tokens; sequence: of per-rollout means; prompt: of per-group token means; "
        "constant: sum / (rollouts x max_completion_length)",
    )
    kl_coef: float = key(0.0, "weight of KL(policy || frozen start model), k3 estimator", ge=0)
    entropy_coef: float = key(0.0, "weight of the entropy bonus", ge=0)


@dataclass(slots=True, kw_only=True)
class LearnerConfig:
    lr: float = key(1e-6, "AdamW learning rate", gt=0)
    beta1: float = key(0.9, "AdamW", ge=0, lt=1)
    beta2: float = key(0.999, "AdamW", ge=0, lt=1)
    eps: float = key(1e-8, "AdamW", gt=0)
    weight_decay: float = key(0.0, "AdamW, decoupled", ge=0)
    warmup_updates: int = key(0, "linear warm-up, counted in optimizer updates", ge=0)
    schedule: Literal["constant", "linear", "cosine"] = key("constant", "after the warm-up, counted in updates")
    schedule_updates: int | None = key(None, "updates at which linear and cosine reach zero; needed by both", gt=0)
    max_grad_norm: float | None = key(1.0, "clip the gradient norm; null: off", gt=0)
    updates_per_batch: int = key(1, "mini-batches a step's batch is split into, one optimizer update each", gt=0)
    epochs: int = key(1, "passes over a step's batch", gt=0)
    freeze_vision: bool = key(
        False, "image-text models: train the text model only; the vision tower, and what joins it, stay as they are"
    )
    micro_batch_tokens: int = key(8192, "padded tokens in one forward pass; does not change the gradient", gt=0)
    logit_budget: int = key(2**25, "logits (tokens x vocabulary) held at once by the log-prob computation", gt=0)


@dataclass(slots=True, kw_only=True)
class EvalConfig:
    every: int | None = key(10, "evaluate after every so many steps; null: only at start and end", gt=0)
    every_rollouts: int | None = key(None, "also after the step that crosses each multiple of this", gt=0)
    prompts: int = key(512, "held-out prompts, of each task", gt=0)
    samples: int = key(1, "completions per prompt", gt=0, le=100_000)
    seconds: float | None = key(
        None,
        "end an evaluation after the round of sampling.max_rows completions in which this much time has passed; its "
        "numbers stand apart from those of whole ones; null: no limit but prompts x samples x max_completion_length",
        gt=0,
    )
    temperature: float = key(1.0, "0 is greedy", ge=0)
    top_p: float = key(1.0, "nucleus mass", ge=1e-6, le=1)
    seed: int = key(
        0, "seed of the evaluation samples; apart from the run's seed, so that runs are compared alike", ge=0
    )


@dataclass(slots=True, kw_only=True)
class CheckpointConfig:
    every: int | None = key(25, "save after every so many steps; null: only at the end", gt=0)
    keep: int = key(2, "newest checkpoints kept", gt=0)
    best: str | None = key(None, "also keep the one of the best evaluation by this result, such as accuracy; null: off")


@dataclass(slots=True, kw_only=True)
class GuardConfig:
    action: Literal["warn", "stop", "off"] = key(
        "warn", "what a sign of collapse does: a note, the end of the run, or nothing"
    )
    window: int = key(20, "steps a sign is averaged over", gt=0)
    dead: float = key(0.98, "sign: share of groups without reward variance", gt=0, le=1)
    all_right: float = key(0.95, "sign: share of groups that are all right", gt=0, le=1)
    all_wrong: float = key(0.95, "sign: share of groups that are all wrong", gt=0, le=1)
    entropy_share: float = key(0.02, "sign: entropy, as a share of that of the first window", ge=0, lt=1)
    idle_steps: int | None = key(
        50, "the run ends after so many steps in a row in which nothing could teach; null: never", gt=0
    )


@dataclass(slots=True, kw_only=True)
class ReflectionConfig:
    recheck: list[str] = key(  # noqa: RUF009
        ["check again", "recheck", "verify", "double-check"],
        "words counted in responses as signs that an answer is looked over; empty: not counted",
    )
    hesitation: list[str] = key(["wait", "hmm", "however", "but"], "the same for doubt")  # noqa: RUF009
    exploration: list[str] = key(  # noqa: RUF009
        ["alternatively", "another approach", "try"], "the same for other ways being tried"
    )


@dataclass(slots=True, kw_only=True)
class LogConfig:
    rollouts: bool = key(False, "write every group, with texts and verdicts, to rollouts.jsonl")
    report: bool = key(True, "write report.html at the end of the run")
    reflection: ReflectionConfig = field(default_factory=ReflectionConfig)


@dataclass(slots=True, kw_only=True)
class RunConfig:
    method: str = key("grpo", "a name from `rollwise methods`")
    task: str = key("sort_digits", "what is trained on; of several tasks, the one whose starter and recipe are used")
    task_args: dict[str, Any] = key({}, "the task's own settings")  # noqa: RUF009
    tasks: dict[str, TaskConfig] = key({}, "data sets to mix, by name; empty: `task` alone")  # noqa: RUF009
    model: str = key(
        "starter", "a folder or hub name of a causal or image-text model; starter: the bundled one of the task"
    )
    output: str | None = key(None, "run folder; null: runs/<task>-<method>-seed<seed>")
    seed: int = key(0, "every random number of the run derives from it", ge=0)
    threads: int = key(1, "CPU threads; more than 1 pays only on idle cores", gt=0)
    device: str = key("cpu", "cpu, cuda, cuda:N or mps")
    backend: Literal["local", "verl"] = key(
        "local", "local: this process and one device; verl: its Ray cluster and engines, see docs/scale.md"
    )
    verl: dict[str, Any] = key(  # noqa: RUF009
        {}, "backend verl: verl's own settings by their dotted names, over those made from this config"
    )
    dtype: Literal["float32", "bfloat16"] = key("float32", "precision of matrix products; weights stay float32")
    prompts_per_step: int = key(32, "groups a batch is meant to hold", gt=0)
    group_size: int = key(8, "rollouts per prompt", gt=0)
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    images: ImagesConfig = field(default_factory=ImagesConfig)
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    allocation: AllocationConfig = field(default_factory=AllocationConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    advantage: AdvantageConfig = field(default_factory=AdvantageConfig)
    critic: CriticConfig = field(default_factory=CriticConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    guard: GuardConfig = field(default_factory=GuardConfig)
    log: LogConfig = field(default_factory=LogConfig)
