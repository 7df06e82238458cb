"""The settings of the code verifier, and reading them from a mapping."""

from __future__ import annotations

import dataclasses
import os
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rollwise.config import key
from rollwise.errors import UserError, nearest, show


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSettings:
    tier: Literal["landlock", "bwrap", "none"] = key(
        "landlock", "jail that programs run in; none runs model-written code with your rights, unprotected"
    )
    test_seconds: int = key(6, "wall time of one test", ge=1, le=600)
    program_seconds: int = key(30, "wall time of all tests of one program", ge=1, le=3600)
    memory_mb: int = key(512, "address space of a program, in MiB", ge=128, le=1 << 16)
    output_kb: int = key(1024, "output of one test, in KiB; more is wrong", ge=1, le=1 << 16)
    workers: int = key(0, "programs that run side by side; 0: one for each core", ge=0, le=256)
    packages: Literal["standard", "installed"] = key(
        "standard", "what programs may import: the standard library, or also the packages of this environment"
    )
    source: Literal["fenced", "any"] = key(
        "fenced", "fenced: the program is the last complete code block; any: without a block, the whole text"
    )

    @property
    def side_by_side(self) -> int:
        """Programs that run at once; the cores this process may use where none is set."""
        return self.workers or len(os.sched_getaffinity(0))


def read_settings(given: Mapping[str, Any] | None) -> CodeSettings:
    """`given` over the defaults. Raises UserError: `code.<key>`, and what would be right."""
    fields = {f.name: f for f in dataclasses.fields(CodeSettings)}
    hints = typing.get_type_hints(CodeSettings)
    for name, value in (given or {}).items():
        if name not in fields:
            raise UserError(f"unknown key 'code.{name}'; {nearest(str(name), fields)}")
        if hints[name] is int:
            low, high = fields[name].metadata["ge"], fields[name].metadata["le"]
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise UserError(f"code.{name} is {show(value)}; it must be a whole number from {low} to {high}")
        elif value not in typing.get_args(hints[name]):
            allowed = ", ".join(typing.get_args(hints[name]))
            raise UserError(f"code.{name} is {show(value)}; it must be one of {allowed}")
    return CodeSettings(**(given or {}))
