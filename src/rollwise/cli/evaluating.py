"""`rollwise eval`."""

from __future__ import annotations

import json
import math
import sys
import time
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rollwise import parts
from rollwise.cli.layers import overrides, row_args, trained
from rollwise.config import RunConfig, build, expand_aliases, merge, read_yaml, title, to_tree
from rollwise.errors import UserError, nearest
from rollwise.report.wording import decimal

if TYPE_CHECKING:
    from rollwise.evaluate import Evaluation
    from rollwise.policy import Policy
    from rollwise.records import Prompt
    from rollwise.results.against import Against
    from rollwise.results.record import Results
    from rollwise.tasks import Task

ALL = 10**9
Found = dict[str, dict[str, "Evaluation"]]  # by benchmark, then sampled or greedy


def evaluate(args: Namespace) -> int:
    settings, model = _settings(args)
    from rollwise.assemble import check_data, heldout_prompts, load_model
    from rollwise.results.against import check_same
    from rollwise.results.record import fingerprint, read_results

    baseline = read_results(Path(args.baseline)) if args.baseline else None
    _check_output(args.output)
    output = Path(args.output).absolute() if args.output else None  # a reward function may change the working folder
    tasks = _tasks(args, settings)
    check_data(settings, tasks)
    policy, tasks = _fitted(args, settings, model, tasks)
    asked = {name: heldout_prompts(settings, {name: task}) for name, task in tasks.items()}
    if baseline is not None:
        check_same({name: fingerprint(prompts) for name, prompts in asked.items()}, baseline, args.baseline)
    found = _measured(args, settings, policy or load_model(settings, model), tasks, asked)
    results = _results(args, asked, found)
    cut = _ended(found)
    if cut and baseline:
        print("note: not compared with the baseline, which answered all of the prompts", file=sys.stderr)
    versus = _versus(args, results, baseline) if baseline and not cut else None
    if output:
        from rollwise.report.page import write_text

        tree = results.to_json() | ({"baseline": versus.to_json()} if versus else {})
        write_text(output, json.dumps(tree, indent=1) + "\n")
    if args.data or versus:
        _show(args, results, versus)
    else:
        _show_heldout(args, settings, found)
    return 0


def _tasks(args: Namespace, settings: RunConfig) -> dict[str, Task]:
    from rollwise.assemble import load_tasks

    if not args.data:
        for flag in ("map", "verifier"):
            if getattr(args, flag):
                raise UserError(f"--{flag} is for --data, which is not given")
        return load_tasks(settings)
    from rollwise.tasks.args import read_args
    from rollwise.tasks.benchmark import load_benchmarks, named_source
    from rollwise.tasks.data import DataArgs
    from rollwise.tasks.rewarded import with_rewards

    found: dict[str, str] = {}
    for text in args.data:
        name, source = named_source(text)
        if name in found:
            raise UserError(f"--data {text}: a second '{name}'; give them names, as in --data first={source}")
        found[name] = source
    judges = _verifiers(args.verifier, list(found))
    own = row_args(args) | ({} if args.template is None else {"template": args.template})
    if wrong := sorted({"data", "heldout_data", "heldout_split"} & own.keys()):
        raise UserError(f"--set task_args.{wrong[0]}: --data names the rows, all of which are asked; leave it out")
    sources = {
        name: read_args(DataArgs, {**own, "data": source, "verifier": judges.get(name, own.get("verifier"))})
        for name, source in found.items()
    }
    tasks = with_rewards(load_benchmarks(sources), settings.reward)
    for name, task in tasks.items():
        for note in task.notes:
            print(f"note: {name}: {note}", file=sys.stderr)
    return tasks


def _verifiers(given: list[str], names: list[str]) -> dict[str, str]:
    """Of each benchmark that has one: `verifier` for all, `name=verifier` for one. Raises UserError."""
    for text in given:
        name, sign, _ = text.partition("=")
        if sign and name not in names:
            raise UserError(f"--verifier {text}: no such --data; {nearest(name, names)}")
    pairs = [text.rpartition("=") for text in sorted(given, key=lambda text: "=" in text)]
    return {n: verifier for name, _, verifier in pairs for n in ([name] if name else names)}


def _fitted(
    args: Namespace, settings: RunConfig, model: Path | None, tasks: dict[str, Task]
) -> tuple[Policy | None, dict[str, Task]]:
    """The tasks without prompts that are too long, and the model that says which; nothing of it where they are kept."""
    if settings.sampling.overlong_prompts == "error":
        return None, tasks
    from rollwise.assemble import load_model
    from rollwise.lengths import fitting

    policy = load_model(settings, model)
    encode = partial(policy.encode, limit=settings.sampling.max_prompt_length)
    tasks, notes = fitting(tasks, encode, heldout=settings.eval.prompts, train=False)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return policy, tasks


def _measured(
    args: Namespace,
    settings: RunConfig,
    policy: Policy,
    tasks: dict[str, Task],
    asked: dict[str, list[Prompt]],
) -> Found:
    from rollwise.evaluate import evaluate as score
    from rollwise.lengths import check_lengths
    from rollwise.records import Sampling
    from rollwise.reflection import patterns

    for name, prompts in asked.items():  # one that is too long is found before any is paid
        encode = partial(policy.encode, limit=settings.sampling.max_prompt_length)
        advice = ", or leave such rows out with --set sampling.overlong_prompts=skip"
        check_lengths(name, prompts, encode, "" if tasks[name].heldout.generated else advice)
    sampler = parts.sampler(settings, policy)
    passes = {"sampled": (args.temperature, args.top_p, args.samples)}
    if not args.no_greedy:
        passes["greedy"] = (0.0, 1.0, 1)
    out: Found = {}
    seconds = settings.eval.seconds
    end = math.inf if seconds is None else time.monotonic() + seconds
    for name, prompts in asked.items():
        if args.data:
            print(f"note: {name}: {len(prompts)} prompts x {args.samples}", file=sys.stderr)
        for how, (temperature, top_p, samples) in passes.items():
            sampling = Sampling(
                temperature=temperature, top_p=top_p, max_completion_length=settings.sampling.max_completion_length
            )
            out.setdefault(name, {})[how] = score(
                sampler,
                prompts,
                tasks[name].judge,
                sampling=sampling,
                samples=samples,
                seed=args.seed,
                patterns=patterns(settings.log.reflection),
                seconds=None if seconds is None else end - time.monotonic(),
                at_once=settings.sampling.max_rows,
            )
    return out


def _ended(found: Found) -> bool:
    """Whether time ended it; says of each pass what is missing, and that its numbers are of the rest."""
    cut = [(name, how, e) for name, passes in found.items() for how, e in passes.items() if e.ended]
    for name, how, e in cut:
        print(f"note: {name}, {how}: {e.note}", file=sys.stderr)
    return bool(cut)


def _results(args: Namespace, asked: dict[str, list[Prompt]], found: Found) -> Results:
    from rollwise.results.record import Benchmark, Results, fingerprint, passed

    return Results(
        model=args.model,
        seed=args.seed,
        benchmarks=tuple(
            Benchmark(
                name=name,
                data=fingerprint(asked[name][: min(e.prompts for e in passes.values())]),  # of what all passes have
                passes={how: passed(e.groups, e.sampling, e.samples, e.results, e.note) for how, e in passes.items()},
            )
            for name, passes in found.items()
        ),
    )


def _versus(args: Namespace, results: Results, baseline: Results) -> Against:
    from rollwise.results.against import against
    from rollwise.scores import Efficiency

    alpha, beta, gamma = args.aes
    return against(results, baseline, Efficiency(alpha=alpha, beta=beta, gamma=gamma))


def _check_output(output: str | None) -> None:
    """Before anything is paid for."""
    if output and (Path(output).is_dir() or not Path(output).absolute().parent.is_dir()):
        raise UserError(f"--output {output}: give a file in a folder that exists")


def _typed(args: Namespace) -> dict[str, Any]:
    return expand_aliases(overrides(args.set), "--set")


def _settings(args: Namespace) -> tuple[RunConfig, Path | None]:
    """The settings to evaluate with, and the folder of the model when it is not the one they name."""
    from rollwise.assemble import resolve

    typed = _typed(args)
    if args.data:
        typed.pop("task_args", None)  # of the benchmarks, not of what the model was trained on
    here: dict[str, dict[str, Any]] = {
        "eval": {
            "prompts": args.prompts or (ALL if args.data else 1000),
            "samples": args.samples,
            "seconds": (typed.get("eval") or {}).get("seconds"),  # a run's own is of its evaluations
        }
    }
    run = Path(args.model)
    if args.model != "starter" and (run / "config.yaml").is_file():
        stored = to_tree(build(read_yaml(run / "config.yaml"), str(run / "config.yaml")))
        if args.task and args.task != stored["task"]:
            raise UserError(f"--task {args.task}: the run is on {stored['task']}; give its model folder to use another")
        return build(merge(merge(stored, typed), here), "--set"), trained(run)
    named = {"model": args.model, "task": args.task or typed.get("task", "sort_digits"), "budget": {"steps": 1}}
    return resolve([("--set", typed), ("command line", merge(named, here))]), None


def _show(args: Namespace, results: Results, versus: Against | None) -> None:
    """A benchmark a line; as JSON without the single prompts, which `--output` has."""
    from rollwise.results.tables import benchmark_table, print_table, reflection_table

    if args.json:
        tree = results.to_json() | ({"baseline": versus.to_json()} if versus else {})
        for entry in tree["benchmarks"].values():
            for how in results.passes:
                entry[how].pop("each")
        print(json.dumps(tree, indent=1))
        return
    print_table(benchmark_table(results, versus), sys.stdout)
    signs = reflection_table(results)
    if signs is not None:
        print_table(signs, sys.stdout)


def _show_heldout(args: Namespace, settings: RunConfig, found: Found) -> None:
    """The held-out prompts of a run's tasks, as one."""
    from rollwise.evaluate import evaluation
    from rollwise.events import clean
    from rollwise.reflection import patterns
    from rollwise.results.record import passed

    out: dict[str, Any] = {"model": args.model, "task": title(settings), "seed": args.seed}
    for how in next(iter(found.values())):
        each = [passes[how] for passes in found.values()]
        sampling, samples = each[0].sampling, each[0].samples
        groups = [g for e in each for g in e.groups]
        whole = evaluation(groups, sampling=sampling, samples=samples, patterns=patterns(settings.log.reflection))
        half = passed(groups, sampling, samples, {}).accuracy.half
        notes = [f"{name}: {passes[how].note}" for name, passes in found.items() if passes[how].ended]
        more = {"ended": "; ".join(notes)} if notes else {}
        out[how] = whole.to_json() | {"half_width": half if math.isfinite(half) else None} | more
    print(json.dumps(clean(out), indent=1) if args.json else "\n".join(_lines(out)))


def _lines(out: dict[str, Any]) -> list[str]:
    lines = [f"{out['model']} on {out['task']}"]
    for name in ("greedy", "sampled"):
        if name not in out:
            continue
        entry = out[name]
        results, sampling = entry["results"], entry["sampling"]
        how = "greedy" if name == "greedy" else f"avg@{entry['samples']}"
        half = "" if entry["half_width"] is None else f" ± {entry['half_width']:.3f}"
        lines.append(
            f"  {how:<8} accuracy {decimal(results['accuracy'])}{half}   "
            f"({entry['prompts']} held-out prompts x {entry['samples']}, "
            f"temperature {sampling['temperature']:g}, top-p {sampling['top_p']:g}, "
            f"at most {sampling['max_completion_length']} tokens, seed {out['seed']})"
        )
        each = [k.split("/")[1] for k in results if k.startswith("task/") and k.endswith("/accuracy")]
        lines += [f"  {'':<8} {task} {decimal(results[f'task/{task}/accuracy'])}" for task in each]
        if name == "sampled":
            lines += [f"  {k:<8} {decimal(v)}" for k, v in results.items() if k.startswith("pass@")]
        lines.append(f"  {'':<8} length {results['mean_length']:.1f} tokens, truncated {results['truncated']:.1%}")
    return lines
