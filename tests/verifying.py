"""Shared by the tests of verifiers: completions without ceremony."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rollwise.records import Prompt, StopReason, Verdict
from rollwise.verify.base import Verifier
from rollwise.verify.scoring import Completion


def said(gold: Any, text: str, meta: dict[str, Any] | None = None, stop: StopReason = StopReason.eos) -> Completion:
    return Completion(prompt=Prompt(uid="test:0", text="?", answer=gold, meta=meta or {}), text=text, stop=stop)


def verdict(
    verifier: Verifier,
    gold: Any,
    text: str,
    meta: dict[str, Any] | None = None,
    stop: StopReason = StopReason.eos,
) -> Verdict:
    (found,) = verifier.judge([said(gold, text, meta, stop)])
    return found


def kinds(verifier: Verifier, gold: Any, texts: Sequence[str], meta: dict[str, Any] | None = None) -> list[str]:
    return [v.kind.value for v in verifier.judge([said(gold, t, meta) for t in texts])]


def jsonl(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
