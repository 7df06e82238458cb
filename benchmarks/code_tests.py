"""How long the code verifier takes over small tests in its default jail.

    python benchmarks/code_tests.py [--runs 3] [--workers 2] [--tier landlock]

Loads that are right by construction: 1,000 programs of one small test and 100 of ten, as whole programs and as asserts.
Prints the median over the runs of the time by the clock, and the CPU seconds of everything (this process, launchers and
programs), which suffer less from other work on the machine.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from typing import Any

from rollwise.records import Prompt
from rollwise.verify.code import Code
from rollwise.verify.scoring import Completion

SCRIPT = "```python\na, b = map(int, input().split())\nprint(a * b + {})\n```"
FUNCTION = "```python\ndef f(x):\n    return sorted(x) + [{}]\n```"


def load(programs: int, tests: int, form: str) -> list[Completion]:
    """`programs` completions that are all different, each with `tests` tests that they pass."""
    out = []
    for n in range(programs):
        answer: dict[str, Any]
        if form == "stdio":
            inputs = [f"{n} {t}\n" for t in range(tests)]
            answer = {"form": form, "inputs": inputs, "outputs": [f"{n * t + n}\n" for t in range(tests)]}
        else:
            asserts = [f"assert f([{t}, 1, {-t}]) == {[*sorted([t, 1, -t]), n]}" for t in range(tests)]
            answer = {"form": form, "tests": asserts, "setup": ""}
        text = (SCRIPT if form == "stdio" else FUNCTION).format(n)
        out.append(Completion(prompt=Prompt(uid=str(n), text="", answer=answer), text=text))
    return out


def cpu() -> float:
    """CPU seconds of this process and of all that it has waited for."""
    both = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(u.ru_utime + u.ru_stime for u in both)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="0: one for each core")
    parser.add_argument("--tier", default="landlock")
    args = parser.parse_args()
    began = time.perf_counter()
    verifier = Code({"tier": args.tier, "workers": args.workers})
    verifier.judge(load(2 * verifier.settings.side_by_side, 1, "stdio"))
    verifier.close()
    print(f"probe and start of {verifier.settings.side_by_side} launchers: {time.perf_counter() - began:.2f} s")
    for programs, tests, form in ((1000, 1, "stdio"), (100, 10, "stdio"), (1000, 1, "asserts"), (100, 10, "asserts")):
        completions = load(programs, tests, form)
        taken, before = [], cpu()
        for _ in range(args.runs):
            began = time.perf_counter()
            verdicts = verifier.judge(completions)
            taken.append(time.perf_counter() - began)
            assert all(v.score == 1.0 for v in verdicts), next(v for v in verdicts if v.score != 1.0)
        verifier.close()  # only then are the launchers' seconds known; the next load starts others
        median, used = statistics.median(taken), (cpu() - before) / args.runs
        print(
            f"{programs:5} programs x {tests:2} {form:7}: median {median:6.2f} s of {args.runs} "
            f"({programs * tests / median:4.0f} tests/s; {min(taken):.2f} to {max(taken):.2f}), CPU {used:5.2f} s a run"
        )


if __name__ == "__main__":
    main()
