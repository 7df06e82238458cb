"""What the README shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rollwise.assemble import resolve
from rollwise.cli.main import parser
from rollwise.methods import method_names

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def block(language: str, number: int = 0) -> str:
    return str(re.findall(rf"```{language}\n(.*?)```", README, re.S)[number])


def test_the_pieces_work_as_shown() -> None:
    names: dict[str, Any] = {}
    exec(block("python"), names)
    np.testing.assert_allclose(names["loss"].numpy(), [[-1.3499, -1.3499]], atol=1e-4)
    np.testing.assert_allclose(
        names["group_advantage"]([1.0, 0.0, 0.0, 1.0]), [0.866, -0.866, -0.866, 0.866], atol=1e-3
    )


def test_the_recipe_resolves() -> None:
    config = resolve([("recipe.yaml", yaml.safe_load(block("yaml")))])
    assert (config.method, config.prompts_per_step, config.budget.rollouts) == ("popo", 64, 50_000)


def test_the_commands_parse() -> None:
    lines = [line.split("#")[0].split() for n in range(3) for line in block("sh", n).splitlines()]
    commands = [words[1:] for words in lines if words and words[0] == "rollwise"]
    assert len(commands) >= 5
    for words in commands:
        parser().parse_args(words)


@pytest.mark.parametrize("name", method_names())
def test_every_method_is_listed(name: str) -> None:
    prefixes = [name[: i + 1] for i, c in enumerate(name) if c == "-"]
    assert f"`{name}`" in README or any(f"`{name[len(p) - 1 :]}`" in README for p in prefixes)
