"""`rollwise eval`."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from rollwise.cli.layers import overrides
from rollwise.config import RunConfig, build, expand_aliases, merge, read_yaml, title, to_tree
from rollwise.errors import UserError


def evaluate(args: Namespace) -> int:
    settings, model = _settings(args)
    from rollwise.assemble import check_data, heldout_prompts, judges, load_model, load_tasks
    from rollwise.evaluate import evaluate as score
    from rollwise.records import Sampling
    from rollwise.sampling.torch_sampler import TorchSampler

    tasks = load_tasks(settings)
    check_data(settings, tasks)
    policy = load_model(settings, model)
    sampler = TorchSampler(
        policy, max_prompt_length=settings.sampling.max_prompt_length, max_rows=settings.sampling.max_rows
    )
    prompts = heldout_prompts(settings, tasks)
    out: dict[str, Any] = {"model": args.model, "task": title(settings), "seed": args.seed}
    passes = {"sampled": (args.temperature, args.top_p, args.samples)}
    if not args.no_greedy:
        passes["greedy"] = (0.0, 1.0, 1)
    for name, (temperature, top_p, samples) in passes.items():
        sampling = Sampling(
            temperature=temperature,
            top_p=top_p,
            max_completion_length=settings.sampling.max_completion_length,
        )
        result = score(sampler, prompts, judges(tasks), sampling=sampling, samples=samples, seed=args.seed)
        out[name] = result.to_json()
    print(json.dumps(out, indent=1) if args.json else "\n".join(_lines(out)))
    return 0


def _settings(args: Namespace) -> tuple[RunConfig, Path | None]:
    """The settings to evaluate with, and the folder of the model when it is not the one they name."""
    from rollwise import checkpoint
    from rollwise.assemble import resolve

    typed = expand_aliases(overrides(args.set), "--set")
    here = {"eval": {"prompts": args.prompts, "samples": args.samples}}
    run = Path(args.model)
    if args.model != "starter" and (run / "config.yaml").is_file():
        stored = to_tree(build(read_yaml(run / "config.yaml"), str(run / "config.yaml")))
        if args.task and args.task != stored["task"]:
            raise UserError(f"--task {args.task}: the run is on {stored['task']}; give its model folder to use another")
        path, _ = checkpoint.newest(run / "checkpoints")
        return build(merge(merge(stored, typed), here), "--set"), path / "model"
    named = {"model": args.model, "task": args.task or typed.get("task", "sort_digits"), "budget": {"steps": 1}}
    return resolve([("--set", typed), ("command line", merge(named, here))]), None


def _lines(out: dict[str, Any]) -> list[str]:
    lines = [f"{out['model']} on {out['task']}"]
    for name in ("greedy", "sampled"):
        if name not in out:
            continue
        entry = out[name]
        results, sampling = entry["results"], entry["sampling"]
        how = "greedy" if name == "greedy" else f"avg@{entry['samples']}"
        lines.append(
            f"  {how:<8} accuracy {results['accuracy']:.3f}   "
            f"({entry['prompts']} held-out prompts x {entry['samples']}, "
            f"temperature {sampling['temperature']:g}, top-p {sampling['top_p']:g}, "
            f"at most {sampling['max_completion_length']} tokens, seed {out['seed']})"
        )
        each = [k.split("/")[1] for k in results if k.startswith("task/") and k.endswith("/accuracy")]
        lines += [f"  {'':<8} {task} {results[f'task/{task}/accuracy']:.3f}" for task in each]
        if name == "sampled":
            lines += [f"  {k:<8} {v:.3f}" for k, v in results.items() if k.startswith("pass@")]
        lines.append(f"  {'':<8} length {results['mean_length']:.1f} tokens, truncated {results['truncated']:.1%}")
    return lines
