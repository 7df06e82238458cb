"""Public golds and public verdicts. Every figure is a golden; what disagrees is named with its row and the reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rollwise.records import VerdictKind
from rollwise.verify import workers
from rollwise.verify.base import Verifier
from rollwise.verify.table import make_verifier
from tests.verifying import jsonl, said, verdict

Rows = list[dict[str, Any]]


def array(file: Path) -> Rows:
    rows: Rows = json.loads(file.read_text(encoding="utf-8"))
    return rows


def no_parser(pairs: list[tuple[str, str]], deadline: float) -> list[workers.Answer]:
    raise AssertionError(f"asked the full parser about {pairs[:3]}")


def test_every_case_that_is_wanted(public_cases: Path) -> None:
    rows = jsonl(public_cases / "verifier.jsonl")
    assert len(rows) >= 33
    for row in rows:
        found = verdict(make_verifier(row["task"]), row["gold"], row["completion"])
        assert found.kind == row["want"], (row, found)


# -- golds verify against themselves

# file, how to read it, the gold of a row, rows, and the golds that cannot be judged by value with the reason
GOLDS: list[tuple[str, Callable[[Path], Rows], Callable[[dict[str, Any]], Any], int, dict[int, str]]] = [
    ("deepscaler/test_math.json", array, lambda r: r["answer"], 250, {}),
    ("deepscaler/train_math.json", array, lambda r: r["answer"], 201, {200: "none"}),
    ("deepscaler/train_aime.json", array, lambda r: r["answer"], 100, {}),
    ("deepscaler/test_amc.json", array, lambda r: r["answer"], 20, {}),
    ("math/test.json", jsonl, lambda r: r["solution"], 200, {}),
    ("deepmath/math_deepmath_deal.jsonl", jsonl, lambda r: r["ground_truth"], 200, {}),
    ("aime24/test.jsonl", jsonl, lambda r: r["answer"], 15, {}),
    ("amc23/test.jsonl", jsonl, lambda r: r["answer"], 20, {}),
    ("aime25/compmath_test.jsonl", jsonl, lambda r: r["expected_answer"], 15, {}),
    ("hmmt/compmath_test.jsonl", jsonl, lambda r: r["expected_answer"], 98, {65: "prose", 67: "prose"}),
    ("olympiadbench/test.jsonl", jsonl, lambda r: r["final_answer"], 100, {73: "prose"}),
    ("exams/gaokao2023en_test.jsonl", jsonl, lambda r: r["answer"], 60, {27: "prose"}),
    ("exams/carp_en_test.jsonl", jsonl, lambda r: r["answer"], 60, {}),
    ("exams/cmath_test.jsonl", jsonl, lambda r: r["answer"], 40, {}),
    ("exams/cn_middle_school_test.jsonl", jsonl, lambda r: r["answer"], 30, {15: "prose"}),
    ("exams/college_math_test.jsonl", jsonl, lambda r: r["answer"], 100, {}),
    (
        "multisubject/llm_judge_Multi-subject-RLVR_deal_new.jsonl",
        jsonl,
        lambda r: r["ground_truth"],
        100,
        dict.fromkeys([5, 16, 30, 37, 43, 47, 51, 52, 56, 57, 61, 75, 95], "prose"),
    ),
]


@pytest.mark.parametrize(("name", "read", "gold_of", "count", "unscorable"), GOLDS, ids=[g[0] for g in GOLDS])
def test_golds_of_mathematics_verify_against_themselves(
    public_data: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    read: Callable[[Path], Rows],
    gold_of: Callable[[dict[str, Any]], Any],
    count: int,
    unscorable: dict[int, str],
) -> None:
    monkeypatch.setattr(workers, "ask", no_parser)
    golds = [gold_of(r) for r in read(public_data / name)]
    assert len(golds) == count
    math = make_verifier("math")
    refused: dict[int, str] = {}
    for i, gold in enumerate(golds):
        text = math.restated(said(gold, ""))
        found = verdict(math, gold, text or "\\boxed{1}")
        if text is None:
            assert found.kind is VerdictKind.infra_error
            refused[i] = found.detail.removeprefix("gold: ").split(",")[0]
        else:
            assert found.kind is VerdictKind.correct, (i, gold, found)
    assert refused == unscorable


def test_golds_of_gsm8k_verify_against_themselves(public_data: Path) -> None:
    gsm8k = make_verifier("gsm8k")
    for split in ("train", "test"):
        golds = [r["answer"] for r in jsonl(public_data / "gsm8k" / f"{split}.jsonl")]
        assert len(golds) == 200
        for gold in golds:
            assert verdict(gsm8k, gold, str(gsm8k.restated(said(gold, "")))).kind is VerdictKind.correct
            assert verdict(gsm8k, gold, gold).kind is VerdictKind.correct


def test_choices_and_geometry_verify_against_themselves(public_data: Path) -> None:
    choice, geometry = make_verifier("choice"), make_verifier("geometry")
    rows = [(choice, r["correct"], {"options": r["options"]}) for r in jsonl(public_data / "exams/aqua_test.jsonl")]
    rows += [(geometry, r["answer"], {"options": r["options"]}) for r in jsonl(public_data / "mathvision/test.jsonl")]
    for folder in sorted((public_data / "geometry3k").iterdir()):
        row = json.loads((folder / "data.json").read_text(encoding="utf-8"))
        rows.append((geometry, row["answer"], {"choices": row["choices"]}))
    assert len(rows) == 40 + 200 + 6
    for verifier, gold, meta in rows:
        text = verifier.restated(said(gold, "", meta))
        assert text is not None
        assert verdict(verifier, gold, text, meta).kind is VerdictKind.correct, (gold, text, meta)
        letter = f"\\boxed{{{gold}}}"
        assert verdict(verifier, gold, letter, meta).kind is VerdictKind.correct, (gold, meta)


def test_countdown_rows_have_the_solution_that_is_said_back(public_data: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (extra `data`)")
    countdown = make_verifier("countdown")
    rows = parquet.read_table(public_data / "countdown" / "test.parquet").to_pylist()[:60]
    for gold in (r["reward_model"]["ground_truth"] for r in rows):
        assert verdict(countdown, gold, str(countdown.restated(said(gold, "")))).kind is VerdictKind.correct


# -- published verdicts

Pair = tuple[Any, Any, str, bool, dict[str, Any]]  # its name, gold, text, the published verdict, meta


def disagreements(verifier: Verifier, pairs: list[Pair]) -> dict[Any, str]:
    """What the verifier says, by the name of each pair whose published verdict is another."""
    found = verifier.judge([said(gold, text, meta) for _, gold, text, _, meta in pairs])
    assert VerdictKind.infra_error not in {v.kind for v in found}
    return {
        name: v.kind.value
        for (name, _, _, published, _), v in zip(pairs, found, strict=True)
        if (v.kind is VerdictKind.correct) is not published
    }


def test_published_verdicts_on_gsm8k(public_data: Path) -> None:
    models = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
    rows = jsonl(public_data / "verdicts_gsm8k" / "example_model_solutions.jsonl")
    pairs: list[Pair] = [
        ((i, m), r["ground_truth"], r[m]["solution"], r[m]["is_correct"], {})
        for i, r in enumerate(rows)
        for m in models
    ]
    assert len(pairs) == 600
    assert disagreements(make_verifier("gsm8k"), pairs) == {}


def test_published_verdicts_on_math(public_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All 360, among them eight `4:30` against the damaged gold `4:30p..`, which are wrong here and there."""
    monkeypatch.setattr(workers, "ask", no_parser)
    rows = jsonl(public_data / "verdicts_math_qwen" / "math_cot_100.jsonl")
    pairs: list[Pair] = [
        ((r["idx"], k), r["gt"], text, score, {})
        for r in rows
        for k, (text, score) in enumerate(zip(r["code"], r["score"], strict=True))
    ]
    assert len(pairs) == 360
    assert disagreements(make_verifier("math"), pairs) == {}


def messages(row: dict[str, Any]) -> str:
    """The last message of a rollout, and the prompt's last."""
    texts = [p["text"] for o in row["response"]["output"] if o.get("type") == "message" for p in o["content"]]
    return str(texts[-1]) if texts else ""


def asked(row: dict[str, Any]) -> str:
    return str(row["responses_create_params"]["input"][-1]["content"])


def gym(public_data: Path, folder: str, gold: str) -> Iterator[Pair]:
    examples = {asked(r): r for r in jsonl(public_data / "nemo_gym" / folder / "example.jsonl")}
    for i, row in enumerate(jsonl(public_data / "nemo_gym" / folder / "example_rollouts.jsonl")):
        example = examples[asked(row)]
        meta = {"options": example["options"]} if "options" in example else {}
        yield i, example[gold], messages(row), row["reward"] == 1.0, meta


def test_published_verdicts_of_gym_on_mathematics(public_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "ask", lambda pairs, deadline: [workers.Answer("slow", detail="x")] * len(pairs))
    judged = list(gym(public_data, "math_with_judge", "expected_answer"))
    coded = list(gym(public_data, "math_with_code", "expected_result"))
    assert len(judged) == len(coded) == 5
    # 1: equal, with exponents 2016 and 4033; math-verify needs half a minute for it, far beyond any deadline
    assert disagreements(make_verifier("math"), judged) == {1: "invalid"}
    # 4: the published pattern stops at the first brace and so read \sqrt{2 where \sqrt{2} stands
    assert disagreements(make_verifier("math"), coded) == {4: "correct"}


def test_published_verdicts_of_gym_on_choices(public_data: Path) -> None:
    pairs = list(gym(public_data, "mcqa", "expected_answer"))
    assert len(pairs) == 5
    # 2: the box holds the letter with its option's text; the published checker takes a bare letter only
    assert disagreements(make_verifier("choice"), pairs) == {2: "correct"}


def test_published_verdicts_on_figures(public_data: Path) -> None:
    """Where they disagree the box holds the right letter or value with more around it, which the publisher's comparison
    of strings does not take: `8 \\mathrm{~kg}`, `(E) MATH`, `\\text{(A)}~11 \\mathrm{~m}`."""
    rows = {r["id"]: r for r in jsonl(public_data / "mathvision" / "test.jsonl")}
    want = {
        "Qwen-VL-Max-CoT": {"87": "correct", "129": "correct"},
        "Gemini-Pro-CoT": {},
        "GPT4-CoT (Text Only)": dict.fromkeys(["87", "94", "169", "173", "186"], "correct"),
    }
    for name, disagreeing in want.items():
        pairs: list[Pair] = [
            (r["id"], rows[r["id"]]["answer"], r["response"], r["correct"], {"options": rows[r["id"]]["options"]})
            for r in jsonl(public_data / "verdicts_mathvision" / f"{name}.jsonl")
        ]
        assert len(pairs) == 200
        assert disagreements(make_verifier("geometry"), pairs) == disagreeing, name
