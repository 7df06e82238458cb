"""The table of verifiers by name. A new one is one more line here."""

from __future__ import annotations

import importlib
from typing import cast

from rollwise.errors import UserError, nearest
from rollwise.verify.base import Verifier

# name: module and class. Looked up only when asked for, so that the list costs no imports.
_TABLE: dict[str, tuple[str, str]] = {
    "math": ("mathematics", "Math"),
    "gsm8k": ("gsm8k", "Gsm8k"),
    "choice": ("choice", "Choice"),
    "exact": ("text", "Exact"),
    "geometry": ("geometry", "Geometry"),
    "countdown": ("countdown", "CountdownVerifier"),
}


def verifier_names() -> list[str]:
    """All verifiers, in the order of the table."""
    return list(_TABLE)


def make_verifier(name: str) -> Verifier:
    """The verifier `name`. Raises UserError for an unknown one."""
    if name not in _TABLE:
        raise UserError(f"unknown verifier '{name}'; {nearest(name, _TABLE)}")
    module, cls = _TABLE[name]
    made = getattr(importlib.import_module(f"rollwise.verify.{module}"), cls)()
    return cast(Verifier, made)
