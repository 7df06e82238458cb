"""All methods by name, read from the modules beside this file."""

from __future__ import annotations

from rollwise.errors import UserError, nearest
from rollwise.methods import base_algorithms, dapo, grpo, popo
from rollwise.methods.base import Method

METHODS: dict[str, Method] = {m.name: m for module in (grpo, dapo, popo, base_algorithms) for m in module.METHODS}


def method_names() -> list[str]:
    return list(METHODS)


def method(name: str) -> Method:
    """The method of that name. Raises UserError naming the nearest."""
    if name not in METHODS:
        raise UserError(f"unknown method '{name}'; {nearest(name, METHODS)}")
    return METHODS[name]
