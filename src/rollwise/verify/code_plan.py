"""Taking test code apart, so that a program never meets what it is expected to answer.

Two ways, chosen for each row:

- split: every test is `assert <expression>` of calls with literal arguments. The calls are made in the jail, one by
  one; the expression is evaluated outside, over the values that came back (`code_eval`).
- apart: loops, helpers, random inputs. The test code runs in a second jail, in which the functions under test are only
  connections to the first; it holds the expectations, and none of the program's code.

What needs the program's own process cannot be judged soundly, and is refused: tests that watch its streams or its
objects, pass objects of the row's own classes, or look at an argument after the call.
"""

from __future__ import annotations

import ast
import builtins
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rollwise.verify.code_eval import supported

MAX_CODE = 1 << 20  # characters of test code
DEPTH = 80  # of an expression that is split
WATCHERS = {
    "sys",
    "io",
    "os",
    "builtins",
    "inspect",
    "contextlib",
    "unittest",
    "pytest",
    "subprocess",
    "importlib",
    "gc",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How a row's test code is judged: `split`, or else `apart` with the functions to connect."""

    split: tuple[ast.expr, ...] | None
    functions: frozenset[str]
    setup: str = ""  # apart: runs before the functions are connected
    code: str = ""  # apart: the test itself
    before: str = ""  # belongs in front of the program
    alias: tuple[str, str] = ("", "")  # a name in the tests, and the function it stands for
    imports: frozenset[str] = frozenset()  # apart: modules that the test code imports


def plan(tests: Mapping[str, Any]) -> Plan:
    """The plan for a row of form `asserts` or `check`. Raises ValueError with the reason where there is none."""
    wanted = {k: tests[k] for k in ("form", "tests", "setup", "entry", "prompt") if k in tests}
    return _plan(json.dumps(wanted, sort_keys=True))


@functools.lru_cache(maxsize=512)
def _plan(tests_json: str) -> Plan:
    tests = json.loads(tests_json)
    code = "\n".join(tests["tests"])
    if len(code) > MAX_CODE:
        raise ValueError(f"its test code is over {MAX_CODE} characters")
    body = _parsed(code)
    if not any(isinstance(node, ast.Assert) for statement in body for node in ast.walk(statement)):
        raise ValueError("its test code asserts nothing")
    if tests["form"] == "check":
        return _check_plan(body, code, tests["entry"], tests["prompt"])
    return _assert_plan(body, code, tests["setup"])


def _check_plan(body: list[ast.stmt], code: str, entry: str, prompt: str) -> Plan:
    check = next((s for s in body if isinstance(s, ast.FunctionDef) and s.name == "check"), None)
    if check is None or len(check.args.args) != 1:
        raise ValueError("its test code defines no check(candidate)")
    candidate = check.args.args[0].arg
    others = [s for s in body if s is not check and not _inert(s)]
    functions, alias = frozenset({entry, candidate}), (candidate, entry)
    if not others and (split := _split(check.body, functions)) is not None:
        return Plan(split, functions, before=prompt, alias=alias)
    _refuse_watching(body, functions)
    _refuse_idle([s for s in body if s is not check])
    needed = _imports([*body, *_parsed(prompt)])
    called = f"{code}\n\ncheck({entry})\n"
    return Plan(None, frozenset({entry}), prompt, called, before=prompt, alias=alias, imports=needed)


def _assert_plan(body: list[ast.stmt], code: str, setup: str) -> Plan:
    prepared = _parsed(setup)
    classes = {s.name for s in prepared if isinstance(s, ast.ClassDef)}
    names = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)}
    if names & classes:
        raise ValueError(
            f"its tests hand over objects of its own class {min(names & classes)}, which stay in a process"
        )
    called = [n.func.id for s in body for n in ast.walk(s) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    local = {n for s in (*prepared, *body) for n in _defined(s)}
    functions = frozenset(n for n in called if n not in local and not hasattr(builtins, n))
    # Some rows ask for a function that Python has too (`sum`): then it is the one that every test calls first.
    functions = functions or frozenset(called[:1])
    if (split := _split(body, functions)) is not None:
        return Plan(split, functions, before=setup)
    _refuse_watching(body, functions)
    _refuse_idle(body)
    return Plan(None, functions, setup, code, before=setup, imports=_imports([*prepared, *body]))


def _split(body: list[ast.stmt], functions: frozenset[str]) -> tuple[ast.expr, ...] | None:
    """The asserted expressions, None where any statement is of another kind."""
    out = []
    for statement in body:
        if isinstance(statement, ast.Assert):
            if _deep(statement.test) or not supported(statement.test, functions):
                return None
            out.append(statement.test)
        elif not _inert(statement):
            return None
    if not any(isinstance(n, ast.Name) and n.id in functions for expression in out for n in ast.walk(expression)):
        raise ValueError("its tests never call the program")
    return tuple(out)


def _deep(node: ast.AST) -> bool:
    """Whether a tree is deeper than `code_eval` should walk."""
    level = [node]
    for _ in range(DEPTH):
        level = [child for parent in level for child in ast.iter_child_nodes(parent)]
    return bool(level)


def _inert(statement: ast.stmt) -> bool:
    """Whether a statement means nothing to a split test: text, `pass`, `import math`, an assigned literal."""
    if isinstance(statement, ast.Import):
        return all(alias.name == "math" and alias.asname is None for alias in statement.names)
    if isinstance(statement, ast.Assign):  # HumanEval's METADATA; a test that reads it back is not `supported`
        return all(isinstance(n, ast.Dict | ast.Constant | ast.Load) for n in ast.walk(statement.value))
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _refuse_idle(body: list[ast.stmt]) -> None:
    """Raises ValueError for asserts in functions or classes that nothing uses: everything would pass them."""
    used = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)}
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and statement.name not in used:
            raise ValueError(f"its test code defines {statement.name} and never uses it")


def _imports(body: list[ast.stmt]) -> frozenset[str]:
    """Top-level names of the modules that the code imports."""
    nodes = [n for s in body for n in ast.walk(s)]
    plain = {alias.name.split(".")[0] for n in nodes if isinstance(n, ast.Import) for alias in n.names}
    return frozenset(plain | {(n.module or "").split(".")[0] for n in nodes if isinstance(n, ast.ImportFrom)})


def _refuse_watching(body: list[ast.stmt], functions: frozenset[str]) -> None:
    """Raises ValueError for test code that cannot be parted from the program's process."""
    if watched := sorted(_imports(body) & WATCHERS):
        raise ValueError(f"its test code uses {watched[0]} to watch the program's own process")
    for node in (n for s in body for n in ast.walk(s)):
        result = node.value if isinstance(node, ast.Expr | ast.Attribute) else None
        if isinstance(result, ast.Call) and isinstance(result.func, ast.Name) and result.func.id in functions:
            raise ValueError(
                f"its test code needs {result.func.id}'s effects or objects, which cannot leave the program"
            )


def _defined(statement: ast.stmt) -> set[str]:
    """Names that a statement makes: functions, classes, variables."""
    out = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    out |= {n.name for n in ast.walk(statement) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    out |= {n.arg for n in ast.walk(statement) if isinstance(n, ast.arg)}
    for node in ast.walk(statement):
        if isinstance(node, ast.ImportFrom):
            out |= {a.asname or a.name for a in node.names}
    return out


def _parsed(code: str) -> list[ast.stmt]:
    try:
        return ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError("its test code is not Python") from None
