"""Public data as its publishers wrote it: which columns are taken, who judges the rows, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollwise.data import Reading, load_examples
from rollwise.errors import UserError

SKIP = {"bad_rows": "skip"}
MATH: dict[str, Any] = {"verifier": "math"}

# file: (how it is read, columns by part, rows by verifier)
READ: list[tuple[str, dict[str, Any], str, dict[str, int]]] = [
    ("gsm8k/train.jsonl", {}, "prompt <- question, gold <- answer", {"gsm8k": 200}),
    ("gsm8k/test.jsonl", {}, "prompt <- question, gold <- answer", {"gsm8k": 200}),
    ("deepscaler/test_math.json", {}, "prompt <- problem, gold <- answer", {"math": 250}),
    ("deepscaler/train_math.json", SKIP, "prompt <- problem, gold <- answer", {"math": 200}),
    ("deepscaler/train_aime.json", {}, "prompt <- problem, gold <- answer", {"math": 100}),
    ("deepscaler/test_amc.json", {}, "prompt <- problem, gold <- answer", {"math": 20}),
    ("verdicts_math_qwen/math_cot_100.jsonl", {}, "prompt <- question, gold <- answer", {"math": 45}),
    ("math/test.json", {}, "prompt <- problem, gold <- solution", {"math": 200}),
    (
        "deepmath/math_deepmath_deal.jsonl",
        {},
        "prompt <- messages, gold <- ground_truth, source <- tag",
        {"math": 200},
    ),
    (
        "multisubject/llm_judge_Multi-subject-RLVR_deal_new.jsonl",
        {"verifier": "exact"},
        "prompt <- messages, gold <- ground_truth, source <- tag",
        {"exact": 100},
    ),
    ("aime24/test.jsonl", {}, "prompt <- problem, gold <- answer", {"math": 15}),
    ("amc23/test.jsonl", {}, "prompt <- problem, gold <- answer", {"math": 20}),
    ("olympiadbench/test.jsonl", {}, "prompt <- question, gold <- final_answer", {"math": 100}),
    ("aime25/compmath_test.jsonl", {}, "prompt <- question, gold <- expected_answer", {"math": 15}),
    ("hmmt/compmath_test.jsonl", {}, "prompt <- question, gold <- expected_answer", {"math": 98}),
    ("exams/gaokao2023en_test.jsonl", {}, "prompt <- question, gold <- answer", {"math": 60}),
    ("exams/carp_en_test.jsonl", {}, "prompt <- content, gold <- answer", {"math": 60}),
    ("exams/cmath_test.jsonl", {}, "prompt <- question, gold <- answer", {"math": 40}),
    ("exams/cn_middle_school_test.jsonl", {}, "prompt <- question, gold <- answer", {"math": 30}),
    ("exams/aqua_test.jsonl", {}, "prompt <- question, gold <- correct, choices <- options", {"choice": 40}),
    (
        "exams/college_math_test.jsonl",
        {},
        "prompt <- question, gold <- answer, source <- data_source",
        {"math": 100},
    ),
    ("humaneval/HumanEval.jsonl.gz", {}, "prompt <- prompt, gold <- the row's tests", {"code": 41}),
    ("mbpp/mbpp.jsonl", {}, "prompt <- text, gold <- the row's tests", {"code": 100}),
    ("mbpp/mbpp_test.jsonl", {}, "prompt <- prompt, gold <- the row's tests", {"code": 50}),
    ("code_stdin/code_contests.jsonl", {}, "prompt <- content, gold <- the row's tests", {"code": 8}),
    (
        "code_stdin/nemo_code_gen_example.jsonl",
        {},
        "prompt <- responses_create_params.input, gold <- the row's tests, source <- dataset",
        {"code": 3},
    ),
    ("code_asserts/mhpp.jsonl", {}, "prompt <- content, gold <- the row's tests", {"code": 10}),
    ("code_asserts/rl_train_oj_0328_1707.jsonl", SKIP, "prompt <- content, gold <- the row's tests", {"code": 8}),
    ("code_asserts/acecode_sample.jsonl", {}, "prompt <- question, gold <- the row's tests", {"code": 1}),
    (
        "countdown/train.parquet",
        {},
        "prompt <- prompt, gold <- reward_model.ground_truth, source <- data_source",
        {"countdown": 200},
    ),
    (
        "countdown/test.parquet",
        {},
        "prompt <- prompt, gold <- reward_model.ground_truth, source <- data_source",
        {"countdown": 200},
    ),
    (
        "verl_parquet/kk_logic_test.parquet",
        {"verifier": "exact"},
        "prompt <- prompt, gold <- reward_model.ground_truth, source <- data_source",
        {"exact": 60},
    ),
    (
        "verl_parquet/math_test.parquet",
        {},
        "prompt <- prompt, gold <- reward_model.ground_truth, source <- data_source",
        {"math": 80},
    ),
    (
        "verl_parquet/others_test.parquet",
        {},
        "prompt <- prompt, gold <- reward_model.ground_truth, source <- data_source",
        {"countdown": 15, "gsm8k": 15, "math": 60},
    ),
    ("arrow_amc", {}, "prompt <- problem, gold <- answer", {"math": 20}),
    ("arrow_amc/data-00000-of-00001.arrow", {}, "prompt <- problem, gold <- answer", {"math": 20}),
    (
        "messages/open_instruct_rlvr_test.jsonl",
        MATH,
        "prompt <- messages, gold <- ground_truth, source <- dataset",
        {"math": 50},
    ),
    ("messages/areal_sample_math.jsonl", {}, "prompt <- messages, gold <- answer", {"math": 10}),
    ("nemo_gym/math_with_judge/example.jsonl", {}, "prompt <- question, gold <- expected_answer", {"math": 5}),
    (
        "nemo_gym/math_with_judge/example_rollouts.jsonl",
        {},
        "prompt <- responses_create_params.input, gold <- expected_answer",
        {"math": 5},
    ),
    (
        "nemo_gym/mcqa/example.jsonl",
        {},
        "prompt <- responses_create_params.input, gold <- expected_answer, choices <- options",
        {"choice": 5},
    ),
    (
        "nemo_gym/mcqa/example_rollouts.jsonl",
        {"verifier": "choice"},
        "prompt <- responses_create_params.input, gold <- expected_answer",
        {"choice": 5},
    ),
    (
        "nemo_gym/reasoning_gym/example.jsonl",
        {"verifier": "exact"},
        "prompt <- question, gold <- answer",
        {"exact": 5},
    ),
    (
        "nemo_gym/math_with_code/example.jsonl",
        {},
        "prompt <- responses_create_params.input, gold <- expected_result",
        {"math": 5},
    ),
    (
        "geometry3k",
        {},
        "prompt <- problem, gold <- answer, source <- data_source, images <- images, choices <- choices",
        {"geometry": 6},
    ),
    (
        "mathvision/test.jsonl",
        SKIP,
        "prompt <- question, gold <- answer, images <- image, choices <- options",
        {"choice": 17, "math": 13},
    ),
]

# Files that are refused as they stand: (how they are read, the reason)
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("deepscaler/train_math.json", {}, "row 200: no gold (answer is null); 1 of 201 rows cannot be used"),
    ("multisubject/llm_judge_Multi-subject-RLVR_deal_new.jsonl", {}, "line 1: tag 'RLVR' names no data set"),
    ("messages/open_instruct_rlvr_test.jsonl", {}, "dataset 'test' names no data set whose verifier is known"),
    ("verl_parquet/kk_logic_test.parquet", {}, "row 0: data_source 'kk_logic' names no data set"),
    ("verl_parquet/arithmetic_sequence_train.parquet", {}, "no column for the gold answer"),
    ("code_stdin/live_code_bench_v1.jsonl", {}, "a Python pickle, which can run code when read"),
    ("code_asserts/rl_train_oj_0328_1707.jsonl", {}, "2 of 10 rows cannot be used"),
    ("mathvision/test.jsonl", {}, "line 1: picture images/1.jpg is not there; 170 of 200 rows cannot be used"),
    ("nemo_gym/reasoning_gym/example.jsonl", {}, "5 golds of 5 are no numbers or formulas"),
    ("verdicts_gsm8k/example_model_solutions.jsonl", {}, "ends in no final answer"),
    # Logs of completions: no rows to ask
    ("code_stdin/nemo_code_gen_example_rollouts.jsonl", {}, "no column for the gold answer"),
    ("nemo_gym/circle_count/example.jsonl", {}, "no column for the gold answer"),
    ("nemo_gym/circle_count/example_rollouts.jsonl", {}, "no column for the gold answer"),
    ("nemo_gym/evalplus/example.jsonl", {}, "no column for the gold answer"),
    ("nemo_gym/evalplus/example_rollouts.jsonl", {}, "no column for the gold answer"),
    ("nemo_gym/math_with_code/example_rollouts.jsonl", {}, "no column for the gold answer"),
    ("nemo_gym/reasoning_gym/example_rollouts.jsonl", {}, "no column for the gold answer"),
    ("verdicts_humaneval/samples_humaneval_nanochat.jsonl", {}, "no column for the prompt"),
    ("verdicts_mathvision/Qwen-VL-Max-CoT.jsonl", {}, "no column for the prompt"),
    ("verdicts_mathvision/Gemini-Pro-CoT.jsonl", {}, "no column for the prompt"),
    ("verdicts_mathvision/GPT4-CoT (Text Only).jsonl", {}, "no column for the prompt"),
]


@pytest.mark.parametrize(("file", "reading", "mapping", "routed"), READ, ids=[r[0] for r in READ])
def test_a_public_file_loads(
    public_data: Path, file: str, reading: dict[str, Any], mapping: str, routed: dict[str, int]
) -> None:
    examples = load_examples(str(public_data / file), Reading(**reading))
    assert str(examples.columns) == mapping
    assert dict(examples.verifiers) == routed
    assert len(examples) == sum(routed.values()) == len(examples.keys)
    assert mapping in examples.notes[0]
    for place in (0, len(examples) - 1):
        example = examples[place]
        assert example.row == examples.numbers[place]
        assert example.question.shown().strip() and example.gold.answer
        assert example.meta["verifier"] == example.verifier


@pytest.mark.parametrize(("file", "reading", "reason"), REFUSED, ids=[r[0] for r in REFUSED])
def test_a_public_file_is_refused(public_data: Path, file: str, reading: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError) as error:
        load_examples(str(public_data / file), Reading(**reading))
    assert str(public_data / file) in str(error.value) and reason in str(error.value)
    assert "\n" not in str(error.value)


def test_every_public_file_is_spoken_of(public_data: Path) -> None:
    kinds = {".jsonl", ".json", ".gz", ".parquet", ".arrow"}
    named = {entry[0] for entry in [*READ, *REFUSED]}
    for file in public_data.rglob("*"):
        name = str(file.relative_to(public_data))
        parts = Path(name).parts[0]
        if file.suffix in kinds and parts not in ("geometry3k", "arrow_amc"):
            assert name in named, name


GOLDS: list[tuple[str, dict[str, Any], int, Any]] = [
    ("gsm8k/train.jsonl", {}, 0, "72"),
    ("math/test.json", {}, 0, "2"),
    ("amc23/test.jsonl", {}, 0, "27"),
    ("aime24/test.jsonl", {}, 7, "025"),
    ("olympiadbench/test.jsonl", {}, 1, "$\\frac{1}{2 n+2}$"),
    ("exams/aqua_test.jsonl", {}, 1, "E"),
    ("geometry3k", {}, 0, "D"),
    ("countdown/train.parquet", {}, 0, {"numbers": [44, 19, 35], "target": 98}),
    ("verl_parquet/math_test.parquet", {}, 0, "8000"),
]


@pytest.mark.parametrize(("file", "reading", "row", "gold"), GOLDS, ids=[g[0] for g in GOLDS])
def test_golds(public_data: Path, file: str, reading: dict[str, Any], row: int, gold: Any) -> None:
    assert load_examples(str(public_data / file), Reading(**reading))[row].gold.answer == gold


def test_a_prompt_that_opens_the_thinking_stays_as_it_is(public_data: Path) -> None:
    from rollwise.tasks import make_task

    task = make_task("data", {"data": str(public_data / "verl_parquet/math_test.parquet")}, starter=False)
    messages = task.train[0].messages
    assert messages is not None and messages[0]["content"].endswith("Let me solve this step by step.\n<think> ")
    base = make_task(
        "data", {"data": str(public_data / "verl_parquet/math_test.parquet"), "template": "base"}, starter=False
    )
    assert base.train[0].text == messages[0]["content"]


def test_pictures_take_the_place_of_their_marks(public_data: Path) -> None:
    from rollwise.tasks import make_task

    args = {"data": str(public_data / "mathvision/test.jsonl"), "bad_rows": "skip"}
    prompt = make_task("data", args, starter=False).train[0]
    assert prompt.messages is not None and len(prompt.images) == 1
    kinds = [part["type"] for part in prompt.messages[0]["content"]]
    assert kinds == ["text", "image", "text"]
    assert prompt.images[0].data.startswith(b"\xff\xd8")


def test_countdown_reads_parquet(public_data: Path) -> None:
    from rollwise.tasks import make_task

    args = {"data": str(public_data / "countdown/train.parquet")}
    task = make_task("countdown", args, starter=True)
    assert len(task.train) + len(task.heldout) == 200
    assert task.train[0].answer == {"numbers": [44, 19, 35], "target": 98}
