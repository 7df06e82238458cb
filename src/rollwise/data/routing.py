"""Which verifier judges a row: by the name of its data set where the row gives one, else by the row's shape."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

from rollwise.errors import UserError, show

# Names as verl, SkyRL, open-instruct, ROLL, NeMo Gym and the data sets' own publishers write them, in small letters;
# `*` stands for anything. The first that fits counts.
KNOWN: dict[str, str] = {
    "openai/gsm8k": "gsm8k",
    "gsm8k": "gsm8k",
    "gsm8k_*": "gsm8k",
    "*/gsm8k": "gsm8k",
    "countdown*": "countdown",
    "*/countdown*": "countdown",
    "hiyouga/geometry3k": "geometry",
    "geometry3k": "geometry",
    "geo3k": "geometry",
    "*/geometry3k": "geometry",
    "lighteval/math": "math",
    "digitallearninggmbh/math-lighteval": "math",
    "huggingfaceh4/math-500": "math",
    "math": "math",
    "math_*": "math",
    "math-*": "math",
    "math500": "math",
    "math[1-5]*": "math",
    "hendrycks*math*": "math",
    "*/hendrycks*math*": "math",
    "*/math": "math",
    "*/math-500": "math",
    "*math_dapo*": "math",
    "*dapo-math*": "math",
    "dapo*": "math",
    "numina*": "math",
    "ai-mo/*": "math",
    "aime*": "math",
    "*/aime*": "math",
    "*aime_20*": "math",
    "*aime-20*": "math",
    "amc*": "math",
    "*/amc*": "math",
    "hmmt*": "math",
    "minerva*": "math",
    "olympiad*": "math",
    "*/olympiad*": "math",
    "omni_math": "math",
    "omni-math": "math",
    "deepscaler*": "math",
    "deepmath*": "math",
    "*/deepmath*": "math",
    "big_math*": "math",
    "orz*": "math",
    "openr1-math*": "math",
    "open-r1/*math*": "math",
    "skywork*math*": "math",
    "college_math*": "math",
    "gaokao*": "math",
    "carp_en": "math",
    "cmath": "math",
    "math_with_judge": "math",
    "mathvision": "geometry",
    "*/mathvision": "geometry",
    "codecontests": "code",
    "code_contests": "code",
    "deepmind/code_contests": "code",
    "apps": "code",
    "*/apps": "code",
    "taco": "code",
    "*/taco": "code",
    "codeforces": "code",
    "livecodebench*": "code",
    "lcb*": "code",
    "leetcode*": "code",
    "primeintellect": "code",
    "kodcode*": "code",
    "acecode*": "code",
    "humaneval*": "code",
    "*humaneval": "code",
    "mbpp*": "code",
    "*/mbpp": "code",
    "code": "code",
    "code_stdio": "code",
    "text2code": "code",
    "gpqa*": "choice",
    "*/gpqa*": "choice",
    "mmlu*": "choice",
    "*/mmlu*": "choice",
    "arc": "choice",
    "arc_*": "choice",
    "arc-*": "choice",
    "*/ai2_arc": "choice",
    "aqua*": "choice",
    "mcqa": "choice",
    "commonsense_qa": "choice",
    "openbookqa": "choice",
    "multiple_choice": "choice",
    "string_matcher": "exact",
    "string_f1": "exact",
    "exact": "exact",
    "exact_match": "exact",
}
UNSAID = {"default", "none", "unknown"}  # what a routing cell holds where it says nothing
FORMULA = re.compile(r"[0-9\\^_=]")


def known_source(name: str) -> str | None:
    """The verifier of a data set's name, or None for one that is not in the table."""
    low = name.strip().lower()
    if low in KNOWN:
        return KNOWN[low]
    return next((verifier for pattern, verifier in KNOWN.items() if fnmatchcase(low, pattern)), None)


def source_of(value: Any) -> str | None:
    """The name in a routing cell; open-instruct writes a list of one."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value.strip() if isinstance(value, str) and value.strip() and value.strip() not in UNSAID else None


def unknown_source(name: str, column: str, where: str) -> UserError:
    return UserError(
        f"{where}: {column} {show(name, 60)} names no data set whose verifier is known; say which judges it, for "
        "example task_args.verifier=math"
    )


def mathematical(gold: str) -> bool:
    """Whether an answer looks like a number or a formula: it holds a digit or a sign of one, or is a letter or two."""
    return len(gold.strip()) <= 2 or FORMULA.search(gold) is not None
