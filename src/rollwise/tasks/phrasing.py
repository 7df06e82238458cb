"""How a row's question is put: as it is, with a sentence on how to answer, or as plain continuation for base models."""

from __future__ import annotations

from itertools import islice
from typing import Any, Literal

from rollwise.data import Example, Examples
from rollwise.data.asking import Question
from rollwise.data.pictures import loaded
from rollwise.errors import UserError
from rollwise.records import Prompt
from rollwise.tasks.templates import FRAME

ANSWER = "Reason step by step, then give the final answer inside \\boxed{}."
HOW: dict[str, str] = {
    "none": "",
    "math": ANSWER,
    "geometry": ANSWER,
    "gsm8k": 'Reason step by step, then end with a line that holds "#### " and the final number.',
    "choice": "Reason step by step, then give the letter of the right option inside \\boxed{}.",
    "exact": "Reason step by step, then write only the final answer between <answer> and </answer>.",
    "countdown": (
        "First reason step by step between <think> and </think>. Then write only the final expression between <answer> "
        "and </answer>, for example <answer>(1+2)*3</answer>."
    ),
}
PROGRAM = {  # by the form of a row's tests
    "stdio": "Write a program in Python 3 that reads standard input and writes standard output.",
    "calls": "Write a function `{name}` in Python 3.",
    "asserts": "Write it in Python 3. It has to pass tests such as this one:\n{test}\n",
    "check": "Write the whole function in Python 3, its imports included.",
}
BLOCK = "Give all of the code in one block that begins with ```python."
SHOWN_TEST = 400  # characters
SAYS_HOW = ("\\boxed{", "<answer>", "####", "<think>", "```python")
OPENED = ("<think>", "Assistant:", "Answer:", "A:")  # ends of a prompt that is plain continuation already
SAMPLE = 200


def speaks_for_itself(examples: Examples) -> bool:
    """Whether most text prompts of a source say themselves how to answer."""
    if not examples.bare_text:
        return True
    stride = max(1, len(examples) // SAMPLE)
    texts = [examples[i].question.text for i in islice(range(0, len(examples), stride), SAMPLE)]
    given = [t for t in texts if t is not None]
    return sum(any(mark in t for mark in SAYS_HOW) for t in given) * 2 > len(given)


def prompt_of(
    example: Example,
    *,
    uid: str,
    task: str,
    template: Literal["auto", "instruct", "base", "none"],
    plain: bool,
    system: str | None,
) -> Prompt:
    """The prompt of one example. `plain`: its source's text prompts say how to answer. Raises UserError where a
    template cannot hold it."""
    common: dict[str, Any] = {"uid": uid, "answer": example.gold.answer, "task": task, "meta": example.meta}
    question = example.question
    images = tuple(loaded(p) for p in question.pictures)
    if template == "base":
        if images or system is not None:
            what = "pictures" if images else "task_args.system"
            raise UserError(f"{example.where}: task_args.template base is plain text and cannot hold {what}")
        return Prompt(text=_continued(example), **common)
    if question.messages is None and not images and system is None and _stays_text(question, template, plain):
        return Prompt(text=question.text, **common)
    asks = template == "instruct" or (template == "auto" and question.messages is None and not plain)
    messages = _messages(example, asks)
    if system is not None:
        messages = [{"role": "system", "content": system}, *(m for m in messages if m["role"] != "system")]
    return Prompt(messages=messages, images=images, **common)


def _stays_text(question: Question, template: str, plain: bool) -> bool:
    assert question.text is not None
    return template == "none" or (template == "auto" and plain and question.text.rstrip().endswith(OPENED))


def _messages(example: Example, asks: bool) -> list[dict[str, Any]]:
    """The question as messages; `asks` adds the options and how to answer to the last of the user's."""
    question = example.question
    tail = _tail(example) if asks else _options(example) if question.messages is None else ""
    if question.messages is None:
        content: Any = question.parts or question.text
        return [{"role": "user", "content": _joined(content, tail)}]
    out = [dict(m) for m in question.messages]
    last = max((i for i, m in enumerate(out) if m["role"] == "user"), default=len(out) - 1)
    out[last]["content"] = _joined(out[last]["content"], tail)
    return out


def _joined(content: Any, tail: str) -> Any:
    if not tail:
        return content
    return content + tail if isinstance(content, str) else [*content, {"type": "text", "text": tail}]


def _tail(example: Example) -> str:
    how = _program(example.gold.answer) if example.verifier == "code" else HOW.get(example.verifier, ANSWER)
    return f"{_options(example)}\n\n{how}" if how else _options(example)


def _program(tests: dict[str, Any]) -> str:
    """What to write: where only the tests know a function's name, one of them is shown."""
    test = next((t for t in tests.get("tests", ()) if len(t) <= SHOWN_TEST), "")
    form = tests["form"] if test or tests["form"] != "asserts" else "check"
    return f"{PROGRAM[form].format(name=tests.get('name'), test=test)} {BLOCK}"


def _options(example: Example) -> str:
    """The options, a line each, where the verifier wants a letter and the question does not list them."""
    shown = example.question.shown()
    listed = all(text in shown or text == letter for letter, text in example.options.items())
    if example.verifier != "choice" or listed:  # one that is its own letter stands in the picture
        return ""
    return "\n\n" + "\n".join(f"{letter}. {text}" for letter, text in example.options.items())


def _continued(example: Example) -> str:
    """For a base model: a prompt that is a continuation already stays as it is."""
    messages = example.question.messages
    text = example.question.text if messages is None else "\n\n".join(str(m["content"]) for m in messages)
    assert text is not None
    if text.rstrip().endswith(OPENED):
        return text
    asked = text if any(mark in text for mark in SAYS_HOW) else text + _tail(example)
    return FRAME.format(question=asked)
