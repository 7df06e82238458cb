"""Which verl this is written for."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, entry_points, version

from rollwise.errors import UserError

LOWEST, BELOW = (0, 9, 1), (0, 10)
RANGE = "verl>=0.9.1,<0.10"


def check_verl() -> None:
    """Raises UserError unless verl is installed in a version this is written for."""
    try:
        found = version("verl")
    except PackageNotFoundError:
        raise UserError(f"backend: verl is not installed; pip install 'rollwise[verl]' ({RANGE})") from None
    numbers = tuple(int(part) for part in found.split("+")[0].split(".")[:3] if part.isdigit())
    if not (numbers >= LOWEST and numbers[:2] < BELOW):
        raise UserError(f"backend: verl {found} is installed; this version of rollwise is written for {RANGE}")


def check_entry_point() -> None:
    """Raises UserError unless verl will find the plugin when it is imported."""
    if not any(e.name == "rollwise" for e in entry_points(group="verl.plugins")):
        raise UserError(
            "backend: rollwise's entry point for verl is not installed; install rollwise itself (pip install), "
            "a path alone does not register it"
        )
