"""The bundled start models: one folder per task, an ordinary Hugging Face folder and two files more.

`recipe.yaml` holds the RL settings measured with it, `starter.json` how it was made and what it can do at the start.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from rollwise.errors import UserError, nearest


def starter_names() -> list[str]:
    """Tasks that have a bundled model."""
    return sorted(p.parent.name for p in _home().glob("*/starter.json"))


def bundled(model: str, task: str) -> bool:
    """Whether a `model` setting names a bundled model, or a folder of one that was trained on: they know the same few
    characters, take the same short prompts and train with the same settings. A folder on a task that has none is a
    model like any other."""
    if model == "starter":
        return True
    if task not in starter_names():
        return False
    config = Path(model).expanduser() / "config.json"
    try:
        return "rollwise_starter" in json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, TypeError):
        return False


def starter_path(task: str) -> Path:
    """The folder of a task's model. Raises UserError where there is none."""
    folder = _home() / task
    if task not in starter_names():
        known = nearest(task, starter_names())
        raise UserError(f"task '{task}' has no starter model; set model to a folder or hub name ({known})")
    return folder


def starter_recipe(task: str) -> dict[str, Any]:
    """The settings a run on this model starts from, as nested keys of the config."""
    from rollwise.config import read_yaml

    return read_yaml(starter_path(task) / "recipe.yaml")


def starter_card(task: str) -> dict[str, Any]:
    """How the model was made and its accuracy at the start."""
    card: dict[str, Any] = json.loads((starter_path(task) / "starter.json").read_text(encoding="utf-8"))
    return card


def _home() -> Path:
    return Path(str(resources.files(__name__)))
