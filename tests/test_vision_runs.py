"""Whole runs of an image-text model on the geometry task, prompts with none, one and two pictures mixed."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollwise import checkpoint, run
from rollwise.assemble import resolve
from rollwise.cli import main
from rollwise.config import LearnerConfig, ObjectiveConfig, merge, nest
from rollwise.console import Console
from rollwise.errors import UserError
from rollwise.learner.learner import Learned, Learner
from rollwise.policy import load_policy
from rollwise.records import Batch, Prompt, Role, Verdict, VerdictKind
from rollwise.tasks.geometry import Geometry, GeometryArgs
from rollwise.verify.scoring import Completion
from tests.conftest import Finished, acting
from tests.models import tiny_vision_model
from tests.test_resume import again, same, without_settings
from tests.vision import picture

Run = Callable[..., Finished]
Batches = list[tuple[Batch, Learned]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_vision_model(tmp_path_factory.mktemp("vision"), scale=3.0)


@pytest.fixture(autouse=True)
def rewarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random model never answers right; half of what it says does here, of three prompts in four."""

    def judge(self: Geometry, completions: list[Completion]) -> list[Verdict]:
        out = []
        for c in completions:
            assert c.token_ids is not None
            right = int(c.token_ids.sum()) % 2 == 0 and c.prompt.row % 4 != 0
            out.append(Verdict(kind=VerdictKind.correct if right else VerdictKind.wrong, score=float(right)))
        return out

    monkeypatch.setattr(Geometry, "judge", judge)


SMALL: dict[str, Any] = {
    "task": "geometry",
    "task_args": {"pictures": [0, 1, 2], "pixels": 84, "train_size": 40, "heldout_size": 8},
    "prompts_per_step": 6,
    "group_size": 4,
    "budget": {"steps": 3},
    "eval": {"every": None, "prompts": 4},
    "sampling": {"max_completion_length": 8},
    "learner": {"lr": 1e-3, "updates_per_batch": 2},
    "log": {"report": False, "rollouts": True},
}


@pytest.fixture
def see(tmp_path: Path, model: Path) -> Run:
    """`see('popo', {'a.b': 1}, name='x')`: a run of the little image-text model."""

    def go(method: str, settings: dict[str, Any] | None = None, *, name: str = "run") -> Finished:
        tree = merge(SMALL, {"method": method, "model": str(model), "output": str(tmp_path / name)})
        for dotted, value in (settings or {}).items():
            tree = merge(tree, nest(dotted, value))
        folder, _ = run.start(resolve([("test", tree)]), Console())
        return Finished(folder)

    return go


@pytest.mark.parametrize("method", ["grpo", "popo"])
def test_prompts_with_none_one_and_two_pictures_are_trained_on_together(
    see: Run, method: str, batches: Batches
) -> None:
    done = see(method, {"budget.steps": 5})
    trained = [row for batch, _ in batches for row in batch.rows if row.credit.teaches]
    assert {len(row.rollout.images) for row in trained} == {0, 1, 2}
    assert done.stop["ledger"]["generated"]["rollouts"] == 5 * 24
    assert max(done.metric("sampling/logp_diff_max")) < 1e-4
    assert all(np.isfinite(v) and v > 0 for v in done.metric("grad_norm"))
    assert (max(done.metric("replay/share")) > 0) == (method == "popo")
    if method == "popo":
        one = len(Geometry(GeometryArgs(pixels=84), starter=False).train[0].images[0].data)
        held = [size for size in done.metric("replay/image_bytes") if size]
        assert held and all(0 < size <= 2 * 6 * one and size % one == 0 for size in held)


def test_replayed_rows_keep_their_own_pictures(see: Run, batches: Batches, model: Path) -> None:
    """At the weights of their birth their log-probs are those of their birth; with another's pictures they are not."""
    see("popo", {"learner.lr": 1e-12, "budget.steps": 6})
    pairs = [
        (row.rollout, prox)
        for batch, learned in batches
        for row, prox in zip(batch.rows, learned.prox, strict=True)
        if row.role is Role.replay and row.rollout.images and prox is not None
    ]
    assert len(pairs) > 4
    for rollout, prox in pairs:
        assert rollout.birth_logprobs is not None
        np.testing.assert_allclose(prox, rollout.birth_logprobs, atol=1e-4, rtol=0)
    policy = load_policy(str(model))
    alike = [(a, b) for a, _ in pairs for b, _ in pairs if len(a.images) == len(b.images) and a.images != b.images]
    one, other = alike[0]
    config = LearnerConfig()
    learner = Learner(policy, config, ObjectiveConfig(), seed=0, max_completion_length=8)
    own, swapped = (learner.logprobs([r])[0] for r in (one, dataclasses.replace(one, images=other.images)))
    np.testing.assert_allclose(own, one.behaviour_logprobs, atol=1e-4, rtol=0)
    assert float(np.abs(own - swapped).max()) > 1e-3


@pytest.mark.parametrize("method", ["popo", "per"])
def test_a_run_stopped_and_resumed_is_the_run_never_stopped(
    see: Run, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a buffer that came back with other pictures would be seen."""
    more = acting(method)
    whole = see(method, {**more, "budget.steps": 5}, name="whole")
    cut_folder = see(method, {**more, "budget.steps": 4}, name="cut").folder
    shutil.copytree(cut_folder, cut_folder.parent / "other")
    cut = again(cut_folder, budget__steps=5)
    assert without_settings(cut.events) == without_settings(whole.events)
    assert cut.weights() == whole.weights()
    assert (cut.folder / "rollouts.jsonl").read_bytes() == (whole.folder / "rollouts.jsonl").read_bytes()
    states = [checkpoint.load(r.folder / "checkpoints" / "step_5") for r in (cut, whole)]
    for state in states:
        state["loop"].pop("seconds")
        state.pop("logs")
    assert same(*states)
    assert max(whole.metric("replay/size")) > 0
    read = Prompt.from_json

    def swapped(data: dict[str, Any]) -> Prompt:
        prompt = read(data)
        return dataclasses.replace(prompt, images=tuple(picture(9, 84, 84) for _ in prompt.images))

    monkeypatch.setattr(Prompt, "from_json", staticmethod(swapped))
    assert again(cut_folder.parent / "other", budget__steps=5).weights() != whole.weights()


def test_the_log_names_images_and_holds_none(see: Run) -> None:
    done = see("grpo", {"budget.steps": 1})
    with_images = [g["prompt"]["images"] for g in done.groups() if "images" in g["prompt"]]
    assert with_images and all(set(i) == {"sha256", "bytes"} for images in with_images for i in images)
    assert not [line for line in (done.folder / "rollouts.jsonl").read_text().splitlines() if "iVBOR" in line]


@pytest.mark.parametrize(
    "settings",
    [
        {"objective.kl_coef": 0.1, "learner.freeze_vision": True},
        {"method": "popo-ppo"},
        {"dtype": "bfloat16"},
    ],
)
def test_reference_critics_and_half_precision_see_pictures_too(see: Run, settings: dict[str, Any], model: Path) -> None:
    done = see(settings.pop("method", "grpo"), {**settings, "budget.steps": 2})
    assert all(np.isfinite(v) for v in done.metric("grad_norm"))
    before, after = (load_policy(str(f)).model for f in (model, done.folder / "checkpoints" / "step_2" / "model"))
    moved = {n for (n, a), b in zip(before.named_parameters(), after.parameters(), strict=True) if not a.equal(b)}
    assert any("language_model" in n for n in moved)
    assert any(".visual." in n for n in moved) is not settings.get("learner.freeze_vision", False)


def test_train_resume_eval_and_report_by_the_command_line(model: Path, tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "run"
    args = json.dumps(SMALL["task_args"])
    sets = [
        "prompts_per_step=6",
        "group_size=4",
        "eval.prompts=4",
        "sampling.max_completion_length=8",
        "log.rollouts=true",
    ]
    named = [
        "task=geometry",
        f"model={model}",
        f"task_args={args}",
        "method=popo",
        f"output={folder}",
        "budget.steps=2",
    ]
    assert main(["train", *(x for s in (*named, *sets) for x in ("--set", s))]) == 0
    assert main(["resume", str(folder), "--set", "budget.steps=3"]) == 0
    capsys.readouterr()
    assert main(["eval", str(folder), "--prompts", "4", "--samples", "2", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["sampled"]["prompts"] == 4 and out["greedy"]["samples"] == 1
    assert main(["report", str(folder)]) == 0
    page = next(folder.glob("*.html")).read_text()
    assert "[image]" in page


WRONG = {
    "text model": ({"model": "starter", "task_args.template": "instruct"}, "geometry"),
    "long": ({"sampling.max_prompt_length": 60}, "sampling.max_prompt_length allows 1 to 60"),
    "bounds": ({"images.max_pixels": 100}, "images.max_pixels is 100; at least images.min_pixels (3136)"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_work_is_one_line_before_the_run_begins(see: Run, what: str, tmp_path: Path) -> None:
    settings, words = WRONG[what]
    with pytest.raises(UserError) as error:
        see("grpo", settings)
    assert words in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()
