"""docs/scale.md and the recipes for verl say what the code does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from rollwise.assemble import resolve
from rollwise.backends.verl.mapping import LIKED, check, from_verl
from rollwise.backends.verl.overrides import arguments
from rollwise.backends.verl.table import ROWS, Row
from rollwise.backends.verl.versions import RANGE
from rollwise.cli.main import main, parser

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
RECIPES = sorted((ROOT / "examples").glob("verl_*.yaml"))


def line(row: Row) -> str:
    """A row of the table as the page shows it."""
    ours = ", ".join(f"`{key}*`" if key.endswith(".") else f"`{key}`" for key in row.ours)
    theirs = ", ".join(dict.fromkeys(f"`{key.lstrip('+')}`" for key in row.theirs))
    return f"| {ours} | {theirs} | {row.note} |"


def table() -> str:
    return "\n".join(["| ours | verl's | |", "|---|---|---|", *map(line, ROWS)])


def test_the_table_of_the_page_is_the_table_of_the_code() -> None:
    assert PAGE.split("<!-- table -->\n")[1].split("\n<!-- end -->")[0] == table()


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_taken_by_both(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = ["--output", str(tmp_path / "run")]
    assert main(["train", str(recipe), "--print-verl-config", *output]) == 0
    lines = capsys.readouterr().out.splitlines()
    gpus = int(recipe.stem.split("_")[2])
    sizes = dict(word.split("=", 1) for word in lines)
    assert int(sizes["trainer.nnodes"]) * int(sizes["trainer.n_gpus_per_node"]) == gpus
    assert f"`examples/{recipe.name}`" in PAGE
    pytest.importorskip("verl", reason="verl is not installed here; `make test-verl` runs this")
    from rollwise.backends.verl.compose import composed

    assert composed(lines).trainer.v1.trainer_mode == "rollwise"


def test_there_are_three_recipes() -> None:
    assert len(RECIPES) == 3


def test_the_megatron_variant_of_a_recipe() -> None:
    text = (ROOT / "examples" / "verl_32b_64_gpus.yaml").read_text(encoding="utf-8")
    keys = dict(re.findall(r"^#   ([\w.]+): (\S+)$", text, re.M))
    tree = yaml.safe_load(text)
    tree["verl"] = {k: v for k, v in tree["verl"].items() if "fsdp" not in k and "ulysses" not in k}
    tree["verl"] |= {k: yaml.safe_load(v) for k, v in keys.items()}
    config = resolve([("f", tree)])
    check(config)
    pytest.importorskip("verl", reason="verl is not installed here; `make test-verl` runs this")
    from rollwise.backends.verl.compose import composed
    from rollwise.backends.verl.mapping import to_verl

    made = composed(arguments(to_verl(config, Path("/runs/one"))))
    assert made.actor_rollout_ref.actor.strategy == "megatron"
    assert made.actor_rollout_ref.actor.megatron.tensor_model_parallel_size == 8


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


def test_the_commands_of_the_page_can_be_given() -> None:
    shown = [words for block in blocks("sh") for words in block.splitlines() if words.startswith("rollwise train")]
    assert len(shown) >= 3
    for words in shown:
        parser().parse_args(shlex.split(words, comments=True)[1:])


def test_the_settings_of_the_page_can_be_given() -> None:
    (text,) = blocks("yaml")
    config = resolve([("f", {"backend": "verl", "budget": {"steps": 1}, **yaml.safe_load(text)})])
    check(config)
    assert RANGE in PAGE and LIKED["actor_rollout_ref.rollout.name"] == "vllm"


def test_the_command_of_a_verl_user_on_the_page() -> None:
    pytest.importorskip("verl", reason="verl is not installed here; `make test-verl` runs this")
    from omegaconf import OmegaConf

    from rollwise.backends.verl.compose import composed

    (command,) = [block for block in blocks("sh") if "verl.trainer.main_ppo" in block]
    words = shlex.split(command.replace("$HOME", "/home/me").replace("\\\n", ""))
    assert words[:3] == ["python", "-m", "verl.trainer.main_ppo"]
    config = from_verl(OmegaConf.to_container(composed(words[3:]), resolve=True))
    assert (config.method, config.replay.capacity_batches, config.budget.steps) == ("popo", 2, 200)
    assert (config.prompts_per_step, config.group_size, config.learner.updates_per_batch) == (256, 8, 4)
    assert config.output == "/home/me/runs/gsm8k-popo" and config.eval.every == 20
