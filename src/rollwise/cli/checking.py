"""`rollwise check`: settings, data, golds, rewards and the sandbox, before anything is spent."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from rollwise.cli.layers import config, overrides, row_args
from rollwise.config import RunConfig, expand_aliases, to_tree
from rollwise.report.wording import clean
from rollwise.verify.code_settings import CodeSettings

if TYPE_CHECKING:
    from rollwise.audit.sets import Subject


def check(args: Namespace) -> int:
    """Status 0: nothing found. 1: findings. 2: something that keeps the check from running."""
    from rollwise.audit.sets import audit_set, shared

    settings, alone, subjects = _what(args)
    sampling = alone.sampling
    counter = _counter(settings, args.model)
    audits = []
    for subject in subjects:
        if sys.stderr.isatty():
            print(f"checking {clean(subject.name, 60)} ...", file=sys.stderr)
        audits.append(
            audit_set(
                subject,
                rows=args.rows,
                attacked=args.prompts,
                max_prompt_length=sampling.max_prompt_length,
                overlong=sampling.overlong_prompts,
                count_tokens=counter,
            )
        )
    both = shared(audits)
    findings = [line for a in audits for line in a.findings()]
    findings += [f"{b['count']} questions stand both in {b['between'][0]} and in {b['between'][1]}" for b in both]
    sandbox = None
    if any(a.runs_code for a in audits):
        sandbox, trouble = _sandbox(_tier(settings))
        findings += trouble
    if args.json:
        out: dict[str, Any] = {
            "ok": not findings,
            "findings": findings,
            "config": to_tree(settings) if settings else None,
            "data": {a.name: a.to_json() for a in audits},
            "shared": both,
            "sandbox": sandbox,
        }
        print(json.dumps(out, indent=1))
    else:
        from rollwise.cli.check_tables import show

        show(settings, audits, sandbox, findings)
    return 1 if findings else 0


def _what(args: Namespace) -> tuple[RunConfig | None, RunConfig, list[Subject]]:
    """The settings that were checked, None where only files were named; those that files are looked at with; and the
    data sets."""
    from rollwise.audit.files import open_file, scored
    from rollwise.audit.sets import Subject
    from rollwise.tasks.rewarded import rewards_of

    settings, subjects = None, []
    alone, own = RunConfig(), row_args(args)
    if args.recipe is not None or not args.data:
        from rollwise.assemble import load_tasks

        settings = config(args)
        if settings.backend == "verl":
            from rollwise.backends.verl.mapping import check as check_carried

            check_carried(settings)
        subjects = [Subject.of_task(name, task) for name, task in load_tasks(settings).items()]
        alone, own = settings, {"map": own["map"]} if args.map else {}  # the rest of --set is of the run
    elif args.set:
        alone = _alone(args)
    rewards = rewards_of(alone.reward)
    for file in dict.fromkeys(args.data):
        subjects.append(Subject.of_file(scored(open_file(file, task=args.task or "data", args=own), rewards)))
    return settings, alone, subjects


def _alone(args: Namespace) -> RunConfig:
    """What `--set` says where only files are named."""
    from rollwise.assemble import resolve

    typed = expand_aliases(overrides(args.set), "--set")
    own = {"task": "data", "model": "none", "budget": {"steps": 1}}
    return resolve([("--set", typed), ("command line", own)])


def _counter(settings: RunConfig | None, model: str | None) -> Any:
    from rollwise.audit.tokens import count_tokens
    from rollwise.starters import starter_path

    name = settings.model if settings else model
    if name is None:
        return None
    return count_tokens(str(starter_path(settings.task)) if settings and name == "starter" else name)


def _tier(settings: RunConfig | None) -> Any:
    """The jail that the settings name for programs, else the default."""
    given = [] if settings is None else [settings.task_args, *(entry.args for entry in settings.tasks.values())]
    for args in given:
        own = args.get("verifier_args") or {}
        code = own.get("code", own)
        if isinstance(code, dict) and "tier" in code:
            return code["tier"]
    return CodeSettings().tier


def _sandbox(tier: Any) -> tuple[dict[str, Any], list[str]]:
    """The live probe of the jail that code is judged in, and what is wrong with it."""
    from rollwise.errors import UserError
    from rollwise.jail.launch import make_tier
    from rollwise.jail.probe import probe

    try:
        result = probe(make_tier(tier))
    except UserError as error:
        return {"holds": False, "failure": str(error), "lines": [str(error)]}, [str(error)]
    return {**result.to_json(), "lines": result.lines()}, [] if result.holds else result.lines()[:1]
