"""What verl's plugin entry point names: loaded by `import verl`, in every process of it.

verl only whispers of a plugin that fails to load, so a fault is said here.
"""

from __future__ import annotations

import sys

from rollwise.backends.verl.versions import check_verl

try:
    check_verl()
    from rollwise.backends.verl import trainer as trainer  # registers itself
except Exception as error:
    print(f"rollwise: its plugin for verl cannot be loaded: {type(error).__name__}: {error}", file=sys.stderr)
    raise
