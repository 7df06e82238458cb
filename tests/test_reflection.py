"""Signs of reflection and the accuracy-efficiency score: fixed texts, hand calculations, and what the loop writes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwise.assemble import resolve
from rollwise.config import build
from rollwise.errors import UserError
from rollwise.evaluate import pass_at_k
from rollwise.records import Group, Prompt, Rollout, Sampling, StopReason
from rollwise.reflection import has_code_block, hits, patterns, reflection
from rollwise.scores import Efficiency, accuracy_efficiency
from tests.conftest import Finished

Train = Callable[..., Finished]
DEFAULT = patterns(build({"budget": {"steps": 1}}).log.reflection)


@pytest.mark.parametrize(
    "text,recheck,hesitation,exploration",
    [
        ("", 0, 0, 0),
        ("Wait. Let me verify, and double-check it; but, hmm, try again.", 2, 3, 1),
        ("Waiting for the butler, who retried to reverify the entry.", 0, 0, 0),
        ("WAIT, wait... HOWEVER\nbut", 0, 4, 0),
        ("Alternatively: another approach. We try x=1, then try-outs.", 0, 0, 4),
        ("check again and recheck; check  again", 2, 0, 0),  # two blanks are not the one of the list
        ("but2 but_ 2but", 0, 1, 0),
    ],
)
def test_counts_of_fixed_texts(text: str, recheck: int, hesitation: int, exploration: int) -> None:
    assert [hits(text, words) for words in DEFAULT.values()] == [recheck, hesitation, exploration]


def test_words_of_other_scripts() -> None:
    assert hits("我们再检查一下。等等，等一下", ["检查", "等等"]) == 2  # without case, nothing joins
    assert hits("Ночь, но НО", ["но"]) == 2


@pytest.mark.parametrize(
    "text,found",
    [
        ("so\n```python\nprint(1)\n```\n", True),
        ("```\nx = 1\n```", True),
        ("```latex\n\\frac12\n```", False),
        ("```latex\na\n```\nthen\n```py\nb\n```", True),
        ("```python\nprint(1)", False),
        ("```python\n\n```", False),
        ("inline ```x``` only", False),
        ("`x` and \\boxed{1}", False),
    ],
)
def test_blocks_of_program_code(text: str, found: bool) -> None:
    assert has_code_block(text) is found


@given(st.text(st.sampled_from("`\nab "), max_size=60))
def test_any_text_is_read(text: str) -> None:
    has_code_block(text)
    assert hits(text, ["ab"]) == sum(
        text[i : i + 2] == "ab" and not text[:i][-1:].isalnum() and not text[i + 2 : i + 3].isalnum()
        for i in range(len(text))
    )


def group(texts: list[tuple[str, int]], task: str = "math", **meta: Any) -> Group:
    prompt = Prompt(uid=task, task=task, meta=meta)
    ids = np.arange(2, dtype=np.int32)
    members = tuple(
        Rollout(
            group_uid="g",
            member=i,
            prompt_ids=ids,
            completion_ids=np.zeros(length, dtype=np.int32),
            logprobs=np.zeros(length, dtype=np.float32),
            sampling=Sampling(),
            stop=StopReason.eos,
            text=text,
            birth_step=1,
        )
        for i, (text, length) in enumerate(texts)
    )
    return Group(uid="g", prompt=prompt, rollouts=members)


def test_shares_lengths_and_rates() -> None:
    code = "```python\n1\n```"
    groups = [
        group([("wait, wait", 100), ("so 4", 20), (f"but {code}", 60), ("4", 20)]),
        group([(code, 50)], task="data", verifier="code"),
    ]
    assert reflection(groups, {"hesitation": ["wait", "but"], "recheck": ["verify"], "off": []}) == {
        "reflection/hesitation/share": 2 / 5,
        "reflection/hesitation/mean_length": 80.0,
        "reflection/hesitation/per_1k_tokens": 1000 * 3 / 250,
        "reflection/recheck/share": 0.0,
        "reflection/recheck/per_1k_tokens": 0.0,
        "reflection/code_block/share": 1 / 4,  # the programming task asks for code
        "reflection/code_block/mean_length": 60.0,
    }
    assert reflection(groups, {}) == reflection([], DEFAULT) == {}


def test_a_run_counts_the_words_it_is_given(train: Train) -> None:
    words = {"log.reflection.recheck": ["1"], "log.reflection.hesitation": [], "budget.steps": 2, "log.rollouts": True}
    done = train("grpo", words)
    texts = [[r["text"] for g in done.groups() if g["step"] == s for r in g["rollouts"]] for s in (1, 2)]
    assert done.metric("reflection/recheck/share") == [sum(hits(t, ["1"]) > 0 for t in ts) / len(ts) for ts in texts]
    assert not any("hesitation" in name for step in done.steps for name in step["metrics"])
    assert "reflection/recheck/share" in done.evals[0]["results"]


def test_an_empty_word_is_refused() -> None:
    with pytest.raises(UserError, match=r"log\.reflection\.recheck holds an empty word"):
        resolve([("f", {"budget": {"steps": 1}, "log": {"reflection": {"recheck": ["a", " "]}}})])


@pytest.mark.parametrize(
    "mine,reference,want",
    [
        # By hand: dL = 500/2000 = 0.25, dA = 0.1/0.5 = 0.2: 0.25 + 3 * 0.2.
        ((0.6, 1500), (0.5, 2000), 0.85),
        ((0.4, 1500), (0.5, 2000), 0.25 - 5 * 0.2),
        ((0.5, 3000), (0.5, 2000), -0.5),
        ((0.5, 2000), (0.5, 2000), 0.0),
        # Published with PER (arXiv 2606.04560): accuracies in per cent and mean lengths; its own figures are rounded.
        ((16.58, 1938), (15.75, 2174), 0.2667),
        ((16.58, 1938), (13.53, 2007), 0.7107),
        ((11.20, 3890), (9.52, 2162), -0.2699),
        ((15.43, 2001), (15.75, 2174), -0.0220),
        ((15.28, 1745), (15.75, 2174), 0.0481),
    ],
)
def test_vectors_of_the_accuracy_efficiency_score(
    mine: tuple[float, float], reference: tuple[float, float], want: float
) -> None:
    assert accuracy_efficiency(*mine, *reference) == pytest.approx(want, abs=6e-5)


def test_the_constants_are_settings_and_a_reference_of_nothing_has_no_score() -> None:
    other = Efficiency(alpha=2.0, beta=5.0, gamma=10.0)
    assert accuracy_efficiency(0.6, 1500, 0.5, 2000, other) == pytest.approx(2 * 0.25 + 5 * 0.2)
    assert accuracy_efficiency(0.4, 1500, 0.5, 2000, other) == pytest.approx(2 * 0.25 - 10 * 0.2)
    for mine, reference in (((0.5, 10), (0.0, 10)), ((0.5, 10), (0.5, 0)), ((math.nan, 10), (0.5, 10))):
        assert math.isnan(accuracy_efficiency(*mine, *reference))


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_never_falls_with_k_or_with_what_is_correct(case: tuple[int, int, int]) -> None:
    n, c, k = case
    value = pass_at_k(n, c, k)
    assert 0.0 <= value <= 1.0 and pass_at_k(n, c, 1) == pytest.approx(c / n)
    assert (value == 1.0) == (k > n - c) and (value == 0.0) == (c == 0)
    if k < n:
        assert value <= pass_at_k(n, c, k + 1) + 1e-12
    if c < n:
        assert value <= pass_at_k(n, c + 1, k) + 1e-12
