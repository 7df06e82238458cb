"""Rollwise: RLVR post-training that spends every rollout where it can still teach something.

Usable in pieces: `rollwise.advantage`, `rollwise.objective`, `rollwise.replay`, `rollwise.curriculum` and
`rollwise.allocation` need neither the loop nor a model.
"""

__version__ = "0.1.0"
