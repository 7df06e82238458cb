"""How many mathematics verdicts a minute.

    python benchmarks/verdicts.py [--verdicts 10000] [--repeats 3] [--cores 2]

The questions are made up in the proportions of public sets (MATH, DeepMath, AIME, OlympiadBench): of 100 golds 74 are
whole numbers, 9 fractions, 5 roots, 6 polynomials, 3 tuples, 3 hold functions that only the full parser can tell apart.
Each gold has eight completions, a worked solution with a box: some right in the gold's spelling or another, the others
wrong. Every repetition starts without memory of the one before; the worker processes are started beforehand. Prints the
median and how many answers went to the workers.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections import Counter

from rollwise.records import Prompt
from rollwise.verify import mathematics, workers
from rollwise.verify.scoring import Completion

GROUP = 8
WORKING = "We look at the terms one after another and see that $a_{%d} = %d$, so the next step is to add them up.\n"
Question = tuple[str, list[str], list[str]]  # gold, right answers, wrong answers


def question(rng: random.Random) -> Question:
    kind = rng.random()
    a, b, c = rng.randint(2, 60), rng.randint(2, 60), rng.randint(2, 9)
    if kind < 0.74:
        n = rng.choice([a, a * b, a * 1000 + b, -a])
        return str(n), [str(n), f"{n:,}", f"x = {n}", f"{n}.0"], [str(n + 1), str(-n), f"\\frac{{{n}}}{{2}}"]
    if kind < 0.83:
        p = a * c + 1
        return f"\\frac{{{p}}}{{{c}}}", [f"\\dfrac{{{p}}}{{{c}}}", f"{p}/{c}"], [f"\\frac{{{c}}}{{{p}}}", f"{a}.{c}"]
    if kind < 0.88:
        return f"{a}\\sqrt{{{c}}}", [f"{a} \\sqrt {c}", f"\\sqrt{{{a * a * c}}}"], [f"{a}\\sqrt{{{c + 1}}}", f"{a}\\pi"]
    if kind < 0.94:
        right = [f"(x+{a})(x+{c})", f"x^2+{a + c}x+{a * c}"]
        return f"x^{{2}}+{a + c} x+{a * c}", right, [f"(x-{a})(x+{c})", f"x^2+{a}x+{a * c}"]
    if kind < 0.97:
        return f"({a}, {b})", [f"({a},{b})", f"\\left({a},{b}\\right)"], [f"({b + 1},{a})", f"\\{{{a},{b}\\}}"]
    right = [f"{a}\\ln {c}", f"\\ln {c}\\cdot {a}"]
    return f"{a}\\ln {c}", right, [f"{a}\\log {c}", f"{a}\\ln (x+{c})", f"{a + 1}\\sin {c}"]


def completions(count: int, seed: int) -> list[Completion]:
    rng = random.Random(seed)
    out: list[Completion] = []
    while len(out) < count:
        gold, right, wrong = question(rng)
        prompt = Prompt(uid=f"bench:{len(out)}", text="?", answer=gold)
        for _ in range(GROUP):
            answer = rng.choice(right if rng.random() < 0.5 else wrong)
            working = "".join(WORKING % (i, rng.randint(1, 99)) for i in range(rng.randint(4, 20)))
            out.append(Completion(prompt=prompt, text=f"{working}The answer is $\\boxed{{{answer}}}$."))
    return out[:count]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--verdicts", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    args = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])
    rates: list[float] = []
    for repeat in range(args.repeats):
        batch = completions(args.verdicts, repeat)
        mathematics._read_gold.cache_clear()
        pool = workers.pool()
        pool.forget()
        workers.ask([(f"\\ln {i}", "\\sin 1") for i in range(pool.size)], deadline=60.0)  # they are up
        asked = pool.asked
        start = time.perf_counter()
        verdicts = mathematics.Math().judge(batch)
        seconds = time.perf_counter() - start
        rates.append(len(batch) / seconds * 60)
        kinds = ", ".join(f"{n:,} {k}" for k, n in sorted(Counter(v.kind.value for v in verdicts).items()))
        print(f"{len(batch):,} verdicts in {seconds:.1f} s ({kinds}); {pool.asked - asked} answers went to the workers")
    print(f"median {statistics.median(rates):,.0f} verdicts a minute on {args.cores} cores")


if __name__ == "__main__":
    main()
