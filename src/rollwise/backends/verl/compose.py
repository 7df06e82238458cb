"""Whether verl's own configuration takes the settings, asked of Hydra before anything starts. Imports nothing of verl:
its configuration is a folder of YAML files."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rollwise.errors import UserError

CONFIG = "ppo_trainer"


def config_folder() -> Path:
    """verl's configuration. Raises UserError where there is none."""
    spec = find_spec("verl")
    for place in spec.submodule_search_locations or () if spec else ():
        if (Path(place) / "trainer" / "config" / f"{CONFIG}.yaml").is_file():
            return Path(place) / "trainer" / "config"
    raise UserError(f"backend: verl is here without its trainer/config/{CONFIG}.yaml; install it anew")


def composed(arguments: Sequence[str]) -> Any:
    """verl's whole configuration under these arguments, an OmegaConf mapping. Raises UserError for one that it does not
    know."""
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    with initialize_config_dir(str(config_folder()), version_base=None):
        try:
            return compose(CONFIG, overrides=list(arguments))
        except (HydraException, OmegaConfBaseException) as error:
            said = " ".join(str(error).split())
            raise UserError(f"verl does not take these settings: {said} (here: under `verl`)") from None
