"""The other end of `workers`: a process that compares two LaTeX texts with math-verify, one JSON line each way.

Only LaTeX goes in, by math-verify's grammar (ANTLR); its search in prose is not used. Even so its numbers reach sympy's
parser of Python-like strings, which evaluates: that parser is taken out before the first question, and what stands in
its place reads digits and nothing else. The process limits its own memory and, for each question, its processor time,
writes no files, and ends when its input does.

Differs from math-verify's own `parse` and `verify`: decimals are exact fractions, so that 0.333333 is not 1/3, and two
numbers that it calls equal must agree to twelve significant digits, so that two tiny ones are not equal for being tiny.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
from functools import lru_cache
from typing import Any

MEMORY = 2 << 30  # bytes of address space
SECONDS = 60  # of processor time for one question, in case nobody is left to end the process
MAX_LINE = 16_384


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def limit_time() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def refuse(*_: object, **__: object) -> Any:
    raise ValueError("no Python-like text is parsed here")


def read_number(text: str, *_: object, **__: object) -> Any:
    """Digits with at most one point, as an exact number; a name, as a symbol. Stands in for sympy's `parse_expr`."""
    import sympy

    if text.isascii() and text.isidentifier() and "__" not in text:  # sympy's own modules name things so
        return {"pi": sympy.pi, "E": sympy.E, "I": sympy.I, "oo": sympy.oo}.get(text, sympy.Symbol(text))
    whole, point, decimals = text.strip().partition(".")
    if not (whole + decimals).isascii() or not (whole + decimals).isdigit():
        refuse()
    return sympy.Rational(int(whole + decimals), 10 ** len(decimals)) if point else sympy.Integer(int(whole))


def without_string_parser() -> None:
    """`sympify` of a text imports `parse_expr` by name each time and now finds `read_number`; whoever holds the old
    function finds that the two it ends in refuse. What sympy imports only when it simplifies is imported before, since
    it parses texts of its own meanwhile."""
    import sympy
    from sympy.parsing import sympy_parser

    importlib.import_module("sympy.physics.units")
    x = sympy.Symbol("x", real=True)
    for warm in (sympy.sin(x) ** 2 + sympy.cos(x) ** 2, sympy.sqrt(x**2 + 2 * x + 1) / sympy.exp(x), sympy.log(x**2)):
        sympy.simplify(warm)
    sympy_parser.parse_expr = read_number
    sympy_parser.eval_expr = refuse
    sympy_parser.stringify_expr = refuse


@lru_cache(maxsize=4096)
def parsed(text: str) -> Any:
    """The sympy value of a LaTeX text. Raises whatever the grammar raises."""
    from latex2sympy2_extended.latex2sympy2 import NormalizationConfig, latex2sympy, normalize_latex
    from math_verify.grader import should_treat_as_complex

    config = NormalizationConfig(
        basic_latex=True, units=True, malformed_operators=True, nits=True, boxed="none", equations=False
    )
    latex = normalize_latex(text, config)
    return latex2sympy(
        latex, is_real=not should_treat_as_complex(latex), convert_degrees=False, normalization_config=None
    )


def compare(gold: str, answer: str) -> dict[str, Any]:
    """`{"kind": "said", "same": bool}`, or kind `gold` or `unread` for a side that the grammar does not read."""
    from math_verify.grader import verify

    try:
        want = parsed(gold)
    except MemoryError:
        raise
    except Exception as error:
        return {"kind": "gold", "detail": f"{type(error).__name__}"}
    try:
        given = parsed(answer)
    except MemoryError:
        raise
    except Exception as error:
        return {"kind": "unread", "detail": f"{type(error).__name__}"}
    same = bool(verify(want, given, timeout_seconds=None)) and not differ(want, given)
    return {"kind": "said", "same": same}


def differ(a: Any, b: Any) -> bool:
    """Whether two numbers surely differ: in their first twelve significant digits."""
    try:
        if a.free_symbols or b.free_symbols or not (a.is_number and b.is_number):
            return False
        x, y = a.evalf(30), b.evalf(30)
        return bool(abs(x - y) > max(abs(x), abs(y)) * 1e-12)
    except MemoryError:
        raise
    except Exception:  # sets, matrices, infinities: math-verify's word stands
        return False


def main() -> None:
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # whatever else prints goes nowhere
    limit_memory()
    importlib.import_module("math_verify.grader")  # before the first question, so that no answer pays for it

    without_string_parser()
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    print(json.dumps({"kind": "ready"}), file=out, flush=True)
    for line in iter(lambda: sys.stdin.buffer.readline(MAX_LINE), b""):
        limit_time()
        question = json.loads(line)
        try:
            found = compare(question["gold"], question["answer"])
        except MemoryError:
            found = {"kind": "exhausted"}
        print(json.dumps(found), file=out, flush=True)
        if found["kind"] == "exhausted":
            return


if __name__ == "__main__":
    main()
