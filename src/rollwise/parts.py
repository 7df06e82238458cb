"""From settings to the parts with which a run is made: which class a `kind` names, and with what."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rollwise.config import RunConfig
from rollwise.config.pilot import pilot_prompts, pilot_rollouts

if TYPE_CHECKING:
    from rollwise.evaluate import Sampler
    from rollwise.policy import Policy
    from rollwise.records import Rollout


def sampler(config: RunConfig, policy: Policy, version: Callable[[], int] = int) -> Sampler:
    """What generates. `version` changes whenever the policy's weights do; they never do as it stands."""
    sampling = config.sampling
    if sampling.engine == "torch":
        from rollwise.sampling.torch_sampler import TorchSampler

        return TorchSampler(policy, max_prompt_length=sampling.max_prompt_length, max_rows=sampling.max_rows)
    from rollwise.sampling.vllm_sampler import VllmSampler

    return VllmSampler(
        policy,
        sampling.vllm,
        max_prompt_length=sampling.max_prompt_length,
        max_completion_length=sampling.max_completion_length,
        max_rows=sampling.max_rows,
        version=version,
    )


def check_sampler(config: RunConfig, policy: Policy) -> None:
    """What can be said of the engine that generates before it is started. Raises UserError."""
    if config.sampling.engine == "vllm":
        from rollwise.sampling.vllm_engine import check

        check(policy, config.sampling.vllm)


def sampler_cap(config: RunConfig) -> float | None:
    """Bound of the learner's weight for the sampler's arithmetic; None where it is the trainer's own, or where the
    sampler's log-probs are of a nucleus and the trainer's of all tokens."""
    sampling = config.sampling
    apart = sampling.engine == "vllm" or config.backend == "verl"
    return sampling.importance_cap if apart and sampling.top_p == 1 else None


def allocation(config: RunConfig) -> Any:
    from rollwise.allocation.bounds import Bounds
    from rollwise.allocation.buffer import PilotBuffer
    from rollwise.allocation.dynamic import Dynamic
    from rollwise.allocation.fixed import Fixed
    from rollwise.allocation.pilot import Pilot

    prompts, size, settings, pilot = (
        config.prompts_per_step,
        config.group_size,
        config.allocation,
        config.allocation.pilot,
    )
    if settings.kind == "fixed":
        return Fixed(prompts=prompts, group_size=size)
    bounds = Bounds(max_rounds=settings.max_rounds, max_rollouts=settings.max_rollouts, on_limit=settings.on_limit)
    if settings.kind == "dynamic":
        return Dynamic(prompts=prompts, group_size=size, bounds=bounds, surplus=settings.surplus)
    return Pilot(
        prompts=prompts,
        group_size=size,
        pilot_prompts=pilot_prompts(pilot.prompts, prompts),
        pilot_rollouts=pilot_rollouts(pilot.rollouts, pilot.share, size),
        p_lower=pilot.p_lower,
        p_upper=pilot.p_upper,
        train_on=pilot.train_on,
        buffer=PilotBuffer(capacity=pilot.capacity, max_age=pilot.max_age, pick=pilot.pick, seed=config.seed),
        bounds=bounds,
    )


def replay_capacity(config: RunConfig) -> int:
    """Groups the buffer holds; rollouts, where single ones are stored."""
    replay = config.replay
    if replay.capacity is not None:
        return replay.capacity
    if replay.kind in ("rollouts", "success"):
        return 30_000
    batches = replay.capacity_batches or (replay.min_age + 8 if replay.min_age else 1)
    return batches * config.prompts_per_step


def replay(config: RunConfig) -> Any:
    from rollwise.replay.simple import NoReplay
    from rollwise.replay.success import SuccessReplay

    kind = config.replay.kind
    if kind == "rollouts":
        return _rollouts(config)
    if kind in ("recent", "hybrid"):
        return _groups(config)
    if kind == "success":
        replay = config.replay
        return SuccessReplay(
            seed=config.seed, per_prompt=replay.per_prompt, max_age=replay.max_age, capacity=replay_capacity(config)
        )
    return NoReplay(drop_dead=kind == "filter")


def _groups(config: RunConfig) -> Any:
    from rollwise.replay.hybrid import Hybrid, Reservoir
    from rollwise.replay.recent import RecentGroups

    replay = config.replay
    recent = RecentGroups(
        capacity=replay_capacity(config),
        admit=replay.admit,
        order=replay.order,
        min_age=replay.min_age,
        max_age=replay.max_age,
        max_uses=replay.max_uses,
        short=replay.short,
    )
    if replay.kind == "recent":
        return recent
    reservoir = Reservoir(
        seed=config.seed,
        capacity=replay.reservoir_capacity or 4 * config.prompts_per_step,
        max_age=replay.reservoir_max_age,
        max_uses=replay.max_uses,
    )
    return Hybrid(recent=recent, reservoir=reservoir, share=replay.reservoir_share)


def _rollouts(config: RunConfig) -> Any:
    from rollwise.records import Credit, Group, Placed, Role
    from rollwise.replay.rollouts import RolloutReplay

    estimate = estimator(config)

    def credits_of(group: Group) -> tuple[Credit, ...]:
        """By an estimator that looks at nothing but the group; the config's check sees to that."""
        (credits,) = estimate([Placed(group=group, role=Role.fresh)], None)
        return tuple(credits)

    replay = config.replay
    return RolloutReplay(
        seed=config.seed,
        capacity=replay_capacity(config),
        ratio=replay.ratio,
        alpha=replay.alpha,
        eps=replay.eps,
        warmup_steps=replay.warmup_steps,
        max_age=replay.max_age,
        max_uses=replay.max_uses,
        priority=replay.priority,
        entries=replay.entries,
        composition=replay.composition,
        credits_of=credits_of if replay.composition == "pool" else None,
    )


def estimator(config: RunConfig) -> Any:
    from rollwise.advantage import GeneralizedAdvantage, GroupAdvantage, LeaveOneOut, Overlong, ReinforcePlusPlus

    settings = config.advantage
    made: Any
    if settings.kind == "group":
        made = GroupAdvantage(scale=settings.scale, ddof=settings.ddof, eps=settings.eps)
    elif settings.kind == "rloo":
        made = LeaveOneOut(kl_in_reward=settings.kl_in_reward)
    elif settings.kind == "gae":
        made = GeneralizedAdvantage(
            gamma=settings.gamma,
            gae_lambda=settings.gae_lambda,
            whiten=settings.whiten,
            kl_in_reward=settings.kl_in_reward,
        )
    else:
        made = ReinforcePlusPlus(
            gamma=settings.gamma,
            kl_in_reward=settings.kl_in_reward,
            baseline=settings.kind == "reinforce++-baseline",
        )
    return made if settings.overlong == "keep" else Overlong(made, settings.overlong)


def shaping(config: RunConfig) -> Callable[[Rollout], float] | None:
    """What is added to the score of a training rollout."""
    from rollwise.verify.shaping import overlong_penalty

    reward, longest = config.reward, config.sampling.max_completion_length
    buffer = reward.overlong_buffer
    if reward.overlong_share is not None:
        buffer = max(1, round(reward.overlong_share * longest))
    if buffer is None:
        return None
    return lambda rollout: reward.overlong_factor * overlong_penalty(rollout.length, longest, buffer)
