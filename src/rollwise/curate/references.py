"""Whether a row's reference is right: said back as a model would write it, and judged by its own verifier."""

from __future__ import annotations

from collections.abc import Sequence

from rollwise.curate.rules import Item
from rollwise.records import Verdict, VerdictKind
from rollwise.verify.countdown import read_gold
from rollwise.verify.scoring import Completion, judged
from rollwise.verify.table import make_verifier

SEARCHED = 4  # numbers of a Countdown question whose ways to the target are all tried


def wrong_references(items: Sequence[Item]) -> list[str]:
    """For each item, why its reference is not right: the gold said back is not correct, another column claims another,
    or a Countdown question has no solution. Empty where all is well, and where nothing can be said back (code without a
    reference program)."""
    out = [""] * len(items)
    by_verifier: dict[str, list[int]] = {}
    for place, item in enumerate(items):
        assert item.prompt is not None
        by_verifier.setdefault(str(item.prompt.meta["verifier"]), []).append(place)
    for name, places in by_verifier.items():
        verifier = make_verifier(name)
        asked = [Completion(prompt=p, text="") for i in places if (p := items[i].prompt) is not None]
        texts = [verifier.restated(c) for c in asked]
        said = [Completion(prompt=c.prompt, text=t or "") for c, t in zip(asked, texts, strict=True)]
        for place, text, c, verdict in zip(places, texts, said, judged(verifier.judge, said), strict=True):
            fault = _silent(name, c, verdict) if text is None else _wrong(name, text, verdict)
            out[place] = items[place].conflict or fault
    return out


def _wrong(name: str, text: str, verdict: Verdict) -> str:
    if verdict.kind is VerdictKind.correct:
        return ""
    return f"by {name}, its own {text[:80]!r} is {verdict.kind.value}{_why(verdict)}"


def _silent(name: str, completion: Completion, verdict: Verdict) -> str:
    """Of a row with nothing to say back. A verifier that cannot read the gold says so of any completion."""
    if verdict.kind is VerdictKind.infra_error:
        return f"by {name}{_why(verdict)}"
    gold = read_gold(completion.prompt.answer) if name == "countdown" else None
    if gold is not None and len(gold["numbers"]) <= SEARCHED:
        return "no expression of its numbers has the target as its value"
    return ""


def _why(verdict: Verdict) -> str:
    return f": {verdict.detail}" if verdict.detail else ""
