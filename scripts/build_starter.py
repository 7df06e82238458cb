"""Build a starter model: a tiny decoder warmed up on right answers to its task's training prompts, and measured.

    python scripts/build_starter.py sort_digits [--out DIR]

Seeded and single-threaded: on one machine and one torch version the folder comes out bit for bit the same.
The warm-up stops before it is done, so that reinforcement learning has something to find.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from random import Random
from typing import Any, Protocol, cast

import torch
import transformers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from rollwise.records import Prompt, StopReason
from rollwise.tasks import Task, make_task
from rollwise.tasks.sources import Family, is_held_out
from rollwise.verify.scoring import Completion

CHARS = "0123456789+-*/()=,:; "
SPECIAL = ["<pad>", "<bos>", "<eos>"]
PAD, BOS, EOS = 0, 1, 2
BUNDLED = Path(__file__).resolve().parents[1] / "src" / "rollwise" / "starters"
# transformers 5.24 gave the argument a shorter name.
CACHE = "cache" if "cache" in signature(Qwen3ForCausalLM.forward).parameters else "past_key_values"
CHAT = "{{ bos_token }}{% for message in messages %}{{ message['content'] }}{% endfor %}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How one starter is made."""

    task_args: dict[str, Any]
    width: int = 64
    layers: int = 2
    feedforward: int = 192
    lr: float = 3e-3
    batch: int = 64
    stop: int = 500  # steps taken
    horizon: int = 900  # steps the cosine is laid out for
    floor: float = 0.05  # share of the learning rate at the horizon
    max_new: int = 22
    seed: int = 0
    sizes: tuple[int, ...] = ()  # of the questions shown; none: as the task draws them
    decay: float = 1.0  # each size is shown this much more rarely than the one before


PLANS = {
    "sort_digits": Plan(task_args={}, sizes=tuple(range(2, 21)), decay=0.55, seed=3),
    "chain_sum": Plan(task_args={}, lr=5e-3, batch=128, stop=1600, horizon=2400, floor=0.1),
    # Wide numbers, so that a run cannot get far by memorising pairs of numbers and target.
    "countdown": Plan(
        task_args={"numbers": [2, 3, 4], "max_number": 30, "min_target": 1, "max_target": 99, "operators": "+-*"},
        width=96,
        layers=3,
        feedforward=256,
        batch=128,
        stop=400,
        horizon=800,
        floor=0.1,
    ),
}


class Teacher(Task, Family[Any], Protocol):
    """A task that can also draw questions and show right answers."""

    def demonstration(self, prompt: Prompt, rng: Random) -> str: ...


def tokenizer(max_length: int = 256) -> Any:
    """One token per character; a character outside the vocabulary is an error."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    vocab = {token: i for i, token in enumerate([*SPECIAL, *CHARS])}
    raw = Tokenizer(models.WordLevel(vocab))
    raw.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    raw.decoder = decoders.Fuse()
    out = PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", padding_side="left",
        model_max_length=max_length, clean_up_tokenization_spaces=False,
    )  # fmt: skip
    out.chat_template = CHAT
    return out


def new_model(plan: Plan) -> Any:
    """A Qwen3 decoder with random weights drawn from the plan's seed; four heads, tied embeddings, fp32."""
    torch.manual_seed(plan.seed)
    config = Qwen3Config(
        vocab_size=len(SPECIAL) + len(CHARS), hidden_size=plan.width, num_hidden_layers=plan.layers,
        intermediate_size=plan.feedforward, num_attention_heads=4, num_key_value_heads=4, head_dim=plan.width // 4,
        max_position_embeddings=256, rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True, attention_bias=False, rms_norm_eps=1e-6, initializer_range=0.02,
        pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).float()


def encode(text: str) -> list[int]:
    return [len(SPECIAL) + CHARS.index(c) for c in text]


def demonstrations(task: Teacher, plan: Plan, rng: Random) -> Iterator[tuple[list[int], list[int]]]:
    """Endless (prompt ids, answer ids) from the training side of the split only."""
    weights = [plan.decay**i for i in range(len(plan.sizes))]
    while True:
        size = rng.choices(plan.sizes, weights)[0] if plan.sizes else task.stratum(rng)
        question = task.draw(rng, size)
        if is_held_out(task.key(question)):
            continue
        prompt = task.prompt(question, "warm-up")
        yield [BOS, *encode(content(prompt))], [*encode(task.demonstration(prompt, rng)), EOS]


def content(prompt: Prompt) -> str:
    assert prompt.messages is not None
    return str(prompt.messages[0]["content"])


def train(model: Any, task: Teacher, plan: Plan, steps: int) -> float:
    """`steps` of supervised warm-up; the mean over answer tokens is learned. Returns the last loss."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=plan.lr, betas=(0.9, 0.98), weight_decay=0.01)
    source = demonstrations(task, plan, Random(plan.seed))
    model.train()
    loss = torch.zeros(())
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = plan.lr * rate(step, plan)
        rows = [next(source) for _ in range(plan.batch)]
        width = max(len(p) + len(a) for p, a in rows)
        ids = torch.full((plan.batch, width), PAD)
        labels = torch.full((plan.batch, width), -100)
        for i, (prompt, answer) in enumerate(rows):
            ids[i, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
            labels[i, len(prompt) : len(prompt) + len(answer)] = torch.tensor(answer)
        # Rows end in padding and attention is causal, so no mask is needed.
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    return float(loss.detach())


def rate(step: int, plan: Plan) -> float:
    """Share of the learning rate: 50 steps up, then a cosine down to `floor` at the horizon."""
    if step < 50:
        return (step + 1) / 50
    done = min(1.0, (step - 50) / (plan.horizon - 50))
    return plan.floor + (1 - plan.floor) * 0.5 * (1 + math.cos(math.pi * done))


@torch.no_grad()
def sample(model: Any, prompts: list[str], max_new: int, greedy: bool, seed: int) -> list[tuple[str, StopReason]]:
    """One completion per prompt, at temperature 1 or greedy. All prompts go in one left-padded batch."""
    model.eval()
    generator = torch.Generator().manual_seed(seed)
    rows = [[BOS, *encode(p)] for p in prompts]
    width = max(map(len, rows))
    ids = torch.tensor([[PAD] * (width - len(r)) + r for r in rows])
    mask = torch.tensor([[0] * (width - len(r)) + [1] * len(r) for r in rows])
    done = torch.zeros(len(rows), dtype=torch.bool)
    drawn, step_ids = [], ids
    cache: dict[str, Any] = {}
    for _ in range(max_new):
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -step_ids.shape[1] :]
        out = model(step_ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1, **cache)
        cache, logits = {CACHE: out[CACHE]}, out.logits[:, -1]
        token = logits.argmax(-1) if greedy else torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
        token = token.masked_fill(done, PAD)
        drawn.append(token)
        done |= token == EOS
        if bool(done.all()):
            break
        mask = torch.cat([mask, torch.ones(len(rows), 1, dtype=mask.dtype)], 1)
        step_ids = token[:, None]
    names = [*SPECIAL, *CHARS]
    texts = []
    for row in torch.stack(drawn, 1).tolist():
        ended = EOS in row
        kept = row[: row.index(EOS)] if ended else row
        texts.append(("".join(names[t] for t in kept), StopReason.eos if ended else StopReason.length))
    return texts


def measure(model: Any, task: Task, plan: Plan, prompts: int = 1000, samples: int = 8) -> dict[str, Any]:
    """Accuracy on held-out prompts: mean at temperature 1, greedy, pass@k (k = samples), and the mean by size."""
    asked = [task.heldout[i] for i in range(min(prompts, len(task.heldout)))]
    right = [0] * len(asked)
    greedy = 0
    for start in range(0, len(asked), 250):
        part = asked[start : start + 250]
        texts = [content(p) for p in part]
        for k in range(samples + 1):
            for i, (text, stop) in enumerate(sample(model, texts, plan.max_new, k == samples, 1000 * start + k)):
                (verdict,) = task.judge([Completion(prompt=part[i], text=text, stop=stop)])
                correct = verdict.kind == "correct"
                greedy += correct and k == samples
                right[start + i] += correct and k < samples
    sizes = sorted({p.meta["size"] for p in asked})
    by_size = {}
    for size in sizes:
        mine = [r for r, p in zip(right, asked, strict=True) if p.meta["size"] == size]
        by_size[str(size)] = round(sum(mine) / len(mine) / samples, 3)
    n = len(asked)
    return {
        "prompts": n,
        "samples": samples,
        "temperature": 1.0,
        "accuracy": round(sum(right) / n / samples, 4),
        "greedy": round(greedy / n, 4),
        f"pass@{samples}": round(sum(r > 0 for r in right) / n, 4),  # with k = samples the unbiased estimate is this
        "mixed": round(sum(0 < r < samples for r in right) / n, 4),  # groups of this size that could teach something
        "by_size": by_size,
    }


def build(name: str, out: Path) -> dict[str, Any]:
    """Make, measure and save one starter. Returns its card."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    plan = PLANS[name]
    task = cast(Teacher, make_task(name, plan.task_args, starter=True))
    model = new_model(plan)
    began = time.monotonic()
    loss = train(model, task, plan, plan.stop)
    print(f"{name}: {plan.stop} steps in {time.monotonic() - began:.0f} s, last loss {loss:.3f}", flush=True)
    card = {
        "task": name,
        "task_args": plan.task_args,
        "seed": plan.seed,
        "steps": plan.stop,
        "parameters": sum(p.numel() for p in model.parameters()),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "start": measure(model, task, plan),
    }
    out.mkdir(parents=True, exist_ok=True)
    model.config.rollwise_starter = name  # stays with every model trained from it
    model.generation_config.update(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=plan.max_new)
    model.save_pretrained(out)
    tokenizer().save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)
    if not (out / "recipe.yaml").exists():
        shutil.copyfile(BUNDLED / name / "recipe.yaml", out / "recipe.yaml")
    (out / "starter.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    print(f"{json.dumps(card['start'])}\nsaved to {out} after {time.monotonic() - began:.0f} s")
    return card


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(PLANS))
    parser.add_argument("--out", type=Path, help="folder to write; default: the bundled one")
    args = parser.parse_args()
    build(args.name, args.out or BUNDLED / args.name)


if __name__ == "__main__":
    main()
