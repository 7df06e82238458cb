"""Notes at the start of a run: what its budget gives no time to act."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollwise import run
from rollwise.advice import advice, most_prompts, most_steps
from rollwise.assemble import resolve
from rollwise.config import merge, nest, read_yaml
from rollwise.console import Console

ROLLOUTS = {"budget": {"rollouts": 25_600}}


def notes(method: str, size: int = 1_000_000, **more: Any) -> list[str]:
    config = resolve([("f", {"method": method, "task": "sort_digits", **ROLLOUTS, **more})])
    return advice(config, {"sort_digits": size}, ["sort_digits"])


@pytest.mark.parametrize(
    "method,part,most",
    [
        ("mopps", "curriculum.kind mopps does", 25_600),  # eight candidates for each prompt
        ("srpo", "curriculum.drop_solved does", 3_200),
        ("arpo", "replay.kind success does", 3_200),
        ("pilot-commit", "curriculum.evict_at does", 12_800),  # two pilot rollouts a prompt
    ],
)
def test_memory_of_prompts_that_never_come_again(method: str, part: str, most: int) -> None:
    (note,) = notes(method)
    assert note.startswith(f"{part} nothing before prompts come again, and the budget takes at most {most:,} of the ")
    assert "set task_args.train_size=" in note
    assert len(notes(method, most + 1)) == 1
    assert notes(method, most) == [], "one pass is an epoch that ends"


def test_nothing_is_said_where_nothing_is_known_or_nothing_wants_memory() -> None:
    assert notes("grpo") == notes("popo") == notes("dapo") == []
    assert notes("srpo", budget={"tokens": 10_000}) == []
    assert (
        "give a larger budget"
        in advice(resolve([("f", {"method": "srpo", "budget": {"steps": 5}})]), {"sort_digits": 200})[0]
    )


def test_data_sets_by_their_largest_share() -> None:
    tree: dict[str, Any] = {
        "method": "srpo",
        "tasks": {"sort_digits": 3, "chain_sum": 1},
        "budget": {"steps": 100},  # 3,200 prompts
    }
    sizes = {"sort_digits": 2400, "chain_sum": 801}
    (note,) = advice(resolve([("f", tree)]), sizes, sizes)
    assert "at most 800 of chain_sum's 801" in note and "tasks.chain_sum.args.train_size=200" in note
    stages = [{"tasks": {"chain_sum": 1}, "until": {"steps": 9}}, {}]
    assert advice(resolve([("f", {**tree, "curriculum": {"stages": stages}})]), sizes, sizes) == []


def test_replay_that_begins_late() -> None:
    assert notes("per") == ["replay begins at step 21 (replay.warmup_steps)"]
    assert notes("popo-stale") == ["replay begins at step 11 (replay.min_age)"]
    assert notes("popo", replay={"min_age": 1}) == []
    (note,) = notes("per", budget={"steps": 20})
    assert note == "replay begins at step 21 (replay.warmup_steps), and the budget ends by step 20: set " + (
        "replay.warmup_steps lower"
    )
    assert "the budget ends by step 20" in notes("per", budget={"rollouts": 20 * 256})[0]
    assert "the budget" not in notes("per", budget={"rollouts": 21 * 256})[0]


def test_bounds_are_those_of_the_allocation() -> None:
    def config(method: str, **more: Any) -> Any:
        return resolve([("f", {"method": method, **more})])

    assert most_prompts(config("grpo", budget={"steps": 10, "rollouts": 25_600})) == 320
    assert most_prompts(config("dapo", budget={"steps": 10})) == 3_200, "up to ten rounds a step"
    assert most_prompts(config("grpo", budget={"seconds": 1})) is None
    assert most_steps(config("grpo", budget={"rollouts": 2_570})) == 10
    assert most_steps(config("grpo", budget={"seconds": 1})) is None


def test_the_notes_are_told_before_the_model_is_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Notes(Console):
        def __init__(self) -> None:
            super().__init__()
            self.told: list[str] = []

        def note(self, text: str) -> None:
            self.told.append(text)

    class Loading(Exception):
        pass

    def load(config: Any) -> None:
        raise Loading

    monkeypatch.setattr(run, "load_model", load)
    notes, settings = Notes(), {"replay.warmup_steps": 9, "curriculum.drop_solved": True}
    tree: dict[str, Any] = {"method": "per", "task": "chain_sum", "budget": {"steps": 4}, "output": str(tmp_path / "r")}
    for name, value in settings.items():
        tree = merge(tree, nest(name, value))
    with pytest.raises(Loading):
        run.start(resolve([("f", tree)]), notes)
    (solved,) = [n for n in notes.told if n.startswith("curriculum.drop_solved does nothing before prompts come again")]
    assert "at most 128 of the 1,000,000 training prompts: set task_args.train_size=30 for about four" in solved
    assert "replay begins at step 10 (replay.warmup_steps), and the budget ends by step 4" in " ".join(notes.told)


def test_the_example_of_two_stages_lets_epochs_end() -> None:
    path = Path(__file__).parents[1] / "examples" / "two_stages.yaml"
    config = resolve([(str(path), read_yaml(path))])
    sizes = {name: entry.args["train_size"] for name, entry in config.tasks.items()}
    assert advice(config, sizes, sizes) == []
    shares = {"short": 1.0, "long": 0.5}
    prompts = (config.budget.rollouts or 0) / config.group_size
    assert all(2 * sizes[name] <= shares[name] * prompts / 2 for name in sizes), "twice in half of the budget"
