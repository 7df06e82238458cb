"""The table of verifiers by name. A new one is one more line here."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, cast

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
    "code": ("code", "Code"),
    "none": ("unjudged", "Unjudged"),
}
_WITH_SETTINGS = {"math", "geometry", "code"}


def verifier_names() -> list[str]:
    """All verifiers, in the order of the table."""
    return list(_TABLE)


def make_verifier(name: str, settings: Mapping[str, Any] | None = None) -> Verifier:
    """The verifier `name`, with settings where it has any. Raises UserError for an unknown name or setting."""
    if name not in _TABLE:
        raise UserError(f"unknown verifier '{name}'; {nearest(name, _TABLE)}")
    module, cls = _TABLE[name]
    make = getattr(importlib.import_module(f"rollwise.verify.{module}"), cls)
    if settings and name not in _WITH_SETTINGS:
        raise UserError(f"verifier '{name}' has no settings; take {', '.join(map(str, settings))} away")
    return cast(Verifier, make(settings) if settings else make())
