"""The wrappings a question can have. The task says what is asked; this says for whom."""

from __future__ import annotations

from typing import Any, Literal

from rollwise.records import Prompt

Resolved = Literal["bare", "instruct", "base"]

THINK = (
    "First reason step by step between <think> and </think>. "
    "Then write only the final {what} between <answer> and </answer>, for example <answer>{example}</answer>."
)
FRAME = (
    "Below, a user puts a question to an assistant. The assistant thinks before it replies: its thoughts stand between "
    "<think> and </think>, its reply between <answer> and </answer>.\n\nUser: {question}\nAssistant: <think>"
)


def resolve(template: Literal["auto", "bare", "instruct", "base"], *, starter: bool) -> Resolved:
    """`auto` is bare for a bundled starter and instruct for anything else."""
    if template == "auto":
        return "bare" if starter else "instruct"
    return template


def render(
    template: Resolved,
    *,
    uid: str,
    task: str,
    bare: str,
    question: str,
    what: str,
    example: str,
    answer: Any,
    meta: dict[str, Any],
) -> Prompt:
    """The prompt of one question: `bare` is its shorthand for the starters, `question` its sentence for people."""
    if template == "bare":
        messages = [{"role": "user", "content": bare}]
        return Prompt(uid=uid, messages=messages, answer=answer, task=task, meta=meta)
    full = f"{question} {THINK.format(what=what, example=example)}"
    if template == "base":
        return Prompt(uid=uid, text=FRAME.format(question=full), answer=answer, task=task, meta=meta)
    return Prompt(uid=uid, messages=[{"role": "user", "content": full}], answer=answer, task=task, meta=meta)
