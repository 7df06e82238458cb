"""Programs in Python, judged by their tests. What is run is run in a jail that has been proved; what is judged is
judged outside of it.

The program is the last complete fenced block of the text after the thinking, marked `python` or, if none is, not marked
at all. correct: all tests pass. wrong: the first failed test and its kind are named, the expected value never is.
invalid: no program. infra_error: the launcher failed twice, or (`gold: ...`) the row's tests cannot be used. Score 1
or 0.
"""

from __future__ import annotations

import atexit
import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rollwise.jail.launch import LauncherError, make_tier
from rollwise.jail.pool import Pool, Worker
from rollwise.jail.probe import ProbeResult, prove
from rollwise.jail.restrict import Limits
from rollwise.records import StopReason, Verdict, VerdictKind
from rollwise.verify.answers import final_segment
from rollwise.verify.code_plan import plan
from rollwise.verify.code_run import Job, run_job
from rollwise.verify.code_settings import CodeSettings, read_settings
from rollwise.verify.scoring import Completion, infra_error

FENCE = "```"
# A fence, after the mark of a list item where it begins one, and the language that comes first behind it.
OPENING = re.compile(r"([ \t]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?)(`{3,}|~{3,})")
LANGUAGE = re.compile(r"[^\s{}:,;]+")
MARKED = {"python", "python3", "py", "py3"}
MAX_PROGRAM = 1 << 18  # characters
FORMS = {"stdio": ("inputs", "outputs"), "calls": ("name", "inputs", "outputs"), "asserts": ("tests", "setup")}
FORMS["check"] = ("tests", "entry", "prompt")


class Code:
    """Verifier of programs; `prompt.answer` is what `code_tests.tests_of` makes of a row.

    Raises UserError when made, where the jail that is asked for is missing or does not hold.
    """

    name = "code"

    def __init__(self, settings: Mapping[str, Any] | CodeSettings | None = None) -> None:
        self.settings = settings if isinstance(settings, CodeSettings) else read_settings(settings)
        tier = make_tier(self.settings.tier, installed=self.settings.packages == "installed")
        self.probe: ProbeResult = prove(tier)
        self.notes: tuple[str, ...] = self.probe.missing
        if tier.name == "none":
            self.notes = ("code jail none: model-written programs run with your rights, unprotected",)
        limits = Limits(memory_mb=self.settings.memory_mb, cpu_seconds=self.settings.program_seconds + 1)
        self._pool = Pool(tier, limits, self.settings.output_kb << 10, self.settings.side_by_side)
        atexit.register(self.close)

    def close(self) -> None:
        """Ends the launchers; judging again starts others."""
        self._pool.close()

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        """One verdict for each, several side by side."""
        out: list[Verdict | None] = [self._unrun(c) for c in completions]
        places = [i for i, verdict in enumerate(out) if verdict is None]
        jobs = [
            Job(self._program(completions[i])[0] or "", completions[i].prompt.answer, self.settings) for i in places
        ]
        for i, found in zip(places, self._pool.map(_careful, jobs), strict=True):
            out[i] = _verdict(found)
        return [v for v in out if v is not None]

    def restated(self, completion: Completion) -> str | None:
        """The row's own solution as a fenced block."""
        answer = completion.prompt.answer
        reference = answer.get("reference") if isinstance(answer, Mapping) else None
        return f"{FENCE}python\n{reference}\n{FENCE}" if isinstance(reference, str) else None

    def _unrun(self, completion: Completion) -> Verdict | None:
        """The verdict of what need not be run: a row or a text that is not fit for it."""
        if (reason := _unfit(completion.prompt.answer, self.settings)) is not None:
            return infra_error(f"gold: {reason}")
        program, reason = self._program(completion)
        if program is None:
            return Verdict(kind=VerdictKind.invalid, score=0.0, detail=reason)
        return None

    def _program(self, completion: Completion) -> tuple[str | None, str]:
        return extract(completion.text, completion.stop, whole=self.settings.source == "any")


def extract(text: str, stop: StopReason = StopReason.eos, *, whole: bool = False) -> tuple[str | None, str]:
    """The program in a completion, or None with the reason. `whole`: a text without any fence is the program itself, if
    it ended by itself."""
    segment = final_segment(text)
    if segment is None:
        return None, "thinking not closed"
    blocks, still_open, fenced = _blocks(segment)
    if still_open:
        return None, "code block not closed"
    if blocks:
        program = blocks[-1]
    elif whole and not fenced and stop is not StopReason.length:
        program = segment
    else:
        return None, "truncated" if whole and not fenced else "no code block"
    if not program.strip():
        return None, "no code"
    if len(program) > MAX_PROGRAM:
        return None, f"over {MAX_PROGRAM} characters"
    return program, ""


def _blocks(text: str) -> tuple[list[str], bool, bool]:
    """The complete fenced blocks that may be Python, marked ones if there are any; whether such a block is still open
    at the end; whether there is any fence. As CommonMark has them: of three or more backticks or tildes, closed by at
    least as many, and with as much indentation taken off each line as the fence has. Time is linear in the text."""
    marked: list[str] = []
    unmarked: list[str] = []
    current: list[str] | None = None
    indent, fence, mark, any_fence = 0, "", "", False
    for line in text.split("\n"):
        if current is None:
            opened = OPENING.match(line)
            if opened and not ("`" in opened[2] and "`" in line[opened.end() :]):
                any_fence, current = True, []
                indent, fence = opened.end(1), opened[2]
                named = LANGUAGE.match(line[opened.end() :].lstrip("{. \t"))
                mark = named[0].lower() if named else ""
            continue
        stripped = line.strip()
        if len(stripped) >= len(fence) and stripped == fence[0] * len(stripped):
            block = "\n".join(current) + "\n"
            if mark in MARKED:
                marked.append(block)
            elif not mark:
                unmarked.append(block)
            current = None
        else:
            own = len(line) - len(line.lstrip(" \t"))
            current.append(line[min(indent, own) :].rstrip("\r"))
    return marked or unmarked, current is not None and mark in MARKED, any_fence


def _unfit(answer: object, settings: CodeSettings) -> str | None:
    """Why a gold cannot be used, None where it can."""
    if not isinstance(answer, Mapping) or answer.get("form") not in FORMS:
        return "not tests in a form this verifier reads"
    lacking = [k for k in FORMS[answer["form"]] if k not in answer]
    if lacking:
        return f"its tests lack {', '.join(lacking)}"
    try:
        if "tests" in FORMS[answer["form"]]:
            lacking = sorted(m for m in plan(answer).imports if not _importable(m, settings))
            if lacking:
                return f"its test code imports {lacking[0]}, which the jail does not have (setting packages)"
        elif not answer["inputs"] or len(answer["inputs"]) != len(answer["outputs"]):
            return "as many inputs as outputs are needed, and at least one"
    except (ValueError, TypeError, RecursionError) as error:
        return str(error)
    return None


def _importable(module: str, settings: CodeSettings) -> bool:
    if module in sys.stdlib_module_names:
        return True
    return settings.packages == "installed" and importlib.util.find_spec(module) is not None


def _careful(worker: Worker, job: Job) -> str | Exception:
    """`run_job`, with a fault of our own as a value, so that it costs one verdict and not the batch."""
    try:
        return run_job(worker, job)
    except (LauncherError, OSError):
        raise
    except Exception as error:
        return error


def _verdict(found: str | Exception) -> Verdict:
    if isinstance(found, Exception):
        named = str(found) if isinstance(found, LauncherError) else f"{type(found).__name__}: {found}"
        return infra_error(named)
    if found:
        return Verdict(kind=VerdictKind.wrong, score=0.0, detail=found)
    return Verdict(kind=VerdictKind.correct, score=1.0)
