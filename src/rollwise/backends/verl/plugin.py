"""What verl's plugin entry point names: loaded by `import verl`, in every process of it.

Only the name is registered here; the trainer itself is imported where it is made. verl only whispers of a plugin that
fails to load, so a fault is said here.
"""

from __future__ import annotations

import sys
from typing import Any

from rollwise.backends.verl.versions import check_verl

try:
    check_verl()
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer, register_trainer

    @register_trainer("rollwise")
    class Named(PPOTrainer):  # type: ignore[misc]
        """`trainer.v1.trainer_mode=rollwise`."""

        def __new__(cls, config: Any) -> Any:
            from rollwise.backends.verl.trainer import RollwiseTrainer

            return RollwiseTrainer(config)
except Exception as error:
    print(f"rollwise: its plugin for verl cannot be loaded: {type(error).__name__}: {error}", file=sys.stderr)
    raise
