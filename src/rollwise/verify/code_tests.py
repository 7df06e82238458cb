"""The tests of a code row, in any published shape, as one normal form:

    {"form": "stdio", "inputs": [text], "outputs": [text]}                whole programs, standard input and output
    {"form": "calls", "name": f, "inputs": [[argument]], "outputs": [value]}    JSON values
    {"form": "asserts", "tests": [code], "setup": code}                   assert statements about functions by name
    {"form": "check", "tests": [code], "entry": f, "prompt": code}        HumanEval: `check(candidate)`

with `reference`, a solution that its publisher holds for right, where the row has one. Read here: HumanEval, MBPP
(both spellings), AceCode, MHPP, CodeContests (DeepMind's and SandboxFusion's), APPS and TACO (`input_output`),
LiveCodeBench (JSON columns), NeMo Gym (`verifier_metadata.unit_tests`), verl (`reward_model.ground_truth`), open-r1
(`verification_info`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rollwise.verify.code_plan import plan

PICKLE = "its tests are a Python pickle, which can run code when read; use the JSON form of the data set"
MAX_TEXT = 64 << 20  # characters of one column
PYTHON3 = 3  # CodeContests' number of the language
Tests = dict[str, Any]


def tests_of(row: Mapping[str, Any]) -> Tests | None:
    """The normal form of the row's tests, None where it has none. Raises ValueError with the reason where it has tests
    that cannot be used: a pickle, nothing in them, or asserts that cannot be judged from outside the program."""
    try:
        return _tests_of(row)
    except (TypeError, LookupError, AttributeError, RecursionError):
        raise ValueError("its tests are of no known shape") from None


def _tests_of(row: Mapping[str, Any]) -> Tests | None:
    tests = _stdio_or_calls(row) or _asserts(row)
    if tests is None:
        return None
    if "outputs" in tests:
        if not tests["inputs"] or len(tests["inputs"]) != len(tests["outputs"]):
            raise ValueError(f"{len(tests['inputs'])} inputs and {len(tests['outputs'])} outputs in its tests")
    else:
        plan(tests)
    reference = _reference(row)
    return tests if reference is None else {**tests, "reference": reference}


def _stdio_or_calls(row: Mapping[str, Any]) -> Tests | None:
    """The shapes that list inputs and outputs."""
    for column in ("private_test_cases", "test", "tests"):
        if _pickled(row.get(column)):
            raise ValueError(PICKLE)
    name = _loaded(row.get("metadata")) if isinstance(row.get("metadata"), str | Mapping) else None
    name = name.get("func_name") if isinstance(name, Mapping) else None
    info = _loaded(row.get("verification_info"))
    cases: list[Any] = []
    for given in (
        row.get("public_test_cases"),
        row.get("private_test_cases"),
        info.get("test_cases") if isinstance(info, Mapping) else None,
        row.get("test"),
        row.get("tests"),
    ):
        loaded = _loaded(given)
        if isinstance(loaded, list) and loaded and all(isinstance(c, Mapping) and "output" in c for c in loaded):
            cases += loaded
    if cases:
        return _from_cases(cases, name)
    model = row.get("reward_model")
    metadata = row.get("verifier_metadata")
    columns: list[Any] = [
        metadata.get("unit_tests") if isinstance(metadata, Mapping) else None,
        row.get("input_output"),
        row.get("test"),
        row.get("tests"),
        row.get("test_cases"),
        row.get("ground_truth"),
        model.get("ground_truth") if isinstance(model, Mapping) else None,
    ]
    for given in columns:
        found = _loaded(given)
        if isinstance(found, Mapping) and "inputs" in found and "outputs" in found:
            return _from_columns(found["inputs"], found["outputs"], found.get("fn_name") or name)
    parts = [_loaded(row.get(part)) for part in ("public_tests", "private_tests", "generated_tests")]
    found = [p for p in parts if isinstance(p, Mapping) and "input" in p and "output" in p]
    if found:
        return _from_columns([i for p in found for i in p["input"]], [o for p in found for o in p["output"]], None)
    return None


def _from_cases(cases: Sequence[Mapping[str, Any]], name: str | None) -> Tests:
    """A list of records, one for each test."""
    kinds = {str(c.get("testtype") or c.get("type") or "stdin") for c in cases}
    name = name or next((c["fn_name"] for c in cases if c.get("fn_name")), None)
    inputs, outputs = [c.get("input", "") for c in cases], [c["output"] for c in cases]
    inputs = [i.get("stdin", "") if isinstance(i, Mapping) else i for i in inputs]
    outputs = [o.get("stdout", "") if isinstance(o, Mapping) else o for o in outputs]
    if kinds <= {"functional", "function_call"}:
        if name is None:
            raise ValueError("its tests call a function, and no column names it")
        return _from_columns(inputs, outputs, name)
    return _from_columns(inputs, outputs, None)


def _from_columns(inputs: Sequence[Any], outputs: Sequence[Any], name: str | None) -> Tests:
    """All inputs, and all outputs. With a function's name they are JSON: lists of arguments, or one argument a line."""
    if name is None:
        return {"form": "stdio", "inputs": [_text(i) for i in inputs], "outputs": [_text(o) for o in outputs]}
    arguments = [i if isinstance(i, list) else [_json(line) for line in str(i).splitlines()] for i in inputs]
    values = [_json(o) if isinstance(o, str) and isinstance(inputs[0], str) else o for o in outputs]
    return {"form": "calls", "name": name, "inputs": arguments, "outputs": values}


def _asserts(row: Mapping[str, Any]) -> Tests | None:
    """The shapes that are test code."""
    if isinstance(row.get("entry_point"), str) and isinstance(row.get("test"), str):
        prompt = row.get("prompt")
        code = prompt if isinstance(prompt, str) else ""
        return {"form": "check", "tests": [row["test"]], "entry": row["entry_point"], "prompt": code}
    setup = row.get("test_setup_code") or row.get("test_imports") or ""
    setup = "\n".join(setup) if isinstance(setup, list) else str(setup)
    for column in ("test_list", "test_cases", "test", "tests", "ground_truth", "assertion"):
        found = _loaded(row.get(column))
        listed = found if isinstance(found, list) else [found]
        if listed and all(isinstance(t, str) for t in listed) and any(_asserting(t) for t in listed):
            more = row.get("challenge_test_list") if column == "test_list" else None
            return {"form": "asserts", "tests": [*listed, *(more or [])], "setup": setup}
    return None


def _asserting(text: str) -> bool:
    """Whether a line begins with an assert statement; the word alone may be part of any text."""
    return any(line.lstrip().startswith(("assert ", "assert(")) for line in text.splitlines())


def _reference(row: Mapping[str, Any]) -> str | None:
    """A solution in Python that came with the row."""
    for column in (
        "canonical_solution",
        "code",
        "reference_solution",
        "solution",
        "solutions",
        "gold_standard_solution",
    ):
        found = _loaded(row.get(column))
        if isinstance(found, Mapping):  # CodeContests: parallel lists of languages and texts
            languages, texts = found.get("language") or [], found.get("solution") or []
            found = [t for kind, t in zip(languages, texts, strict=False) if kind == PYTHON3]
        if isinstance(found, list):
            found = next((t for t in found if isinstance(t, str)), None)
        if isinstance(found, str) and found.strip():
            return found.replace("\r\n", "\n")
    return None


def _pickled(value: Any) -> bool:
    """Whether a column is base64 of zlib data, the form in which LiveCodeBench packs pickles. Never unpacked."""
    return isinstance(value, str) and value[:2] == "eJ" and not any(c in value[:200] for c in " \n[{(")


def _loaded(value: Any) -> Any:
    """The value of a JSON text, and anything else as it is."""
    if not isinstance(value, str) or value[:1] not in ("[", "{") or len(value) > MAX_TEXT:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _json(text: Any) -> Any:
    """One argument or result of a function, from its JSON text. Raises ValueError."""
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        raise ValueError("an argument or result in its tests is not JSON") from None


def _text(value: Any) -> str:
    """Standard input or output: text, or a list of lines."""
    if isinstance(value, list):
        return "\n".join(map(str, value))
    if not isinstance(value, str):
        raise ValueError("an input or output in its tests is not text")
    return value
