"""All methods by name, read from the modules beside this file."""

from __future__ import annotations

from rollwise.errors import UserError, nearest
from rollwise.methods import arpo, base_algorithms, dapo, grpo, mopps, per, pilot_commit, popo, srpo
from rollwise.methods.base import Method

MODULES = (grpo, dapo, popo, per, arpo, base_algorithms, pilot_commit, srpo, mopps)
METHODS: dict[str, Method] = {m.name: m for module in MODULES for m in module.METHODS}


def method_names() -> list[str]:
    return list(METHODS)


def method(name: str) -> Method:
    """The method of that name. Raises UserError naming the nearest."""
    if name not in METHODS:
        raise UserError(f"unknown method '{name}'; {nearest(name, METHODS)}")
    return METHODS[name]
