"""A curriculum from its settings and the data sets of a run."""

from __future__ import annotations

from collections.abc import Mapping

from rollwise.config import CurriculumConfig
from rollwise.config.schema import StageConfig, UntilConfig
from rollwise.curriculum.base import Curriculum, Source
from rollwise.curriculum.filters import DropSolved, Evict
from rollwise.curriculum.mixture import Mixture
from rollwise.curriculum.mopps import Mopps
from rollwise.curriculum.stages import Plateau, Stage, Stages
from rollwise.curriculum.uniform import Filter, Uniform


def make_curriculum(
    settings: CurriculumConfig, sources: Mapping[str, Source], weights: Mapping[str, float], *, seed: int
) -> Curriculum:
    """`sources` and `weights` by the name of the data set, which is also the `task` of its prompts."""
    parts = {name: _part(settings, source, seed) for name, source in sources.items()}
    if len(parts) == 1 and not settings.stages:
        return next(iter(parts.values()))
    stages = [_stage(stage, weights) for stage in settings.stages] or [Stage(weights=weights)]
    mixture = Mixture(parts, stages[0].weights, seed=seed)
    return Stages(mixture, stages) if settings.stages else mixture


def _part(settings: CurriculumConfig, source: Source, seed: int) -> Uniform:
    filters: list[Filter] = []
    if settings.drop_solved:
        filters.append(DropSolved(len(source)))
    if settings.evict_at is not None:
        filters.append(Evict(len(source), at=settings.evict_at, on=settings.evict_on, retest=settings.retest_epochs))
    if settings.kind == "uniform":
        return Uniform(source, seed=seed, filters=filters)
    mopps = settings.mopps
    return Mopps(
        source,
        seed=seed,
        filters=filters,
        pool_factor=mopps.pool_factor,
        strategy=mopps.strategy,
        target=mopps.target,
        band=mopps.band,
        decay=mopps.decay,
        prior=(mopps.prior_correct, mopps.prior_wrong),
    )


def _stage(stage: StageConfig, weights: Mapping[str, float]) -> Stage:
    until = stage.until
    return Stage(
        weights=stage.tasks or weights,
        steps=until.steps,
        epochs=until.epochs,
        plateau=_plateau(until),
        reset=tuple(stage.reset),
    )


def _plateau(until: UntilConfig) -> Plateau | None:
    if until.plateau is None:
        return None
    return Plateau(metric=until.plateau, window=until.window, min_gain=until.min_gain, patience=until.patience)
