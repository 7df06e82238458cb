"""A run's settings: typed sections, one YAML file, dotted overrides, and errors that name the key.

Layers, later over earlier: the defaults below, the starter's recipe (only with `model: starter`), the method's
defaults, the user's file, `--set a.b=c`. Unknown keys, wrong types and impossible values raise `UserError` with the key
and what would be right. Imports neither torch nor numpy.
"""

from rollwise.config.aliases import ALIASES
from rollwise.config.build import build
from rollwise.config.layers import (
    dump_yaml,
    expand_aliases,
    leaves,
    merge,
    nest,
    parse_override,
    read_yaml,
    to_tree,
)
from rollwise.config.schema import (
    BudgetConfig,
    CurriculumConfig,
    EvalConfig,
    GuardConfig,
    LearnerConfig,
    ObjectiveConfig,
    RunConfig,
    key,
)
from rollwise.config.tasks import data_sets, named, title

__all__ = [
    "ALIASES",
    "BudgetConfig",
    "CurriculumConfig",
    "EvalConfig",
    "GuardConfig",
    "LearnerConfig",
    "ObjectiveConfig",
    "RunConfig",
    "build",
    "data_sets",
    "dump_yaml",
    "expand_aliases",
    "key",
    "leaves",
    "merge",
    "named",
    "nest",
    "parse_override",
    "read_yaml",
    "title",
    "to_tree",
]
