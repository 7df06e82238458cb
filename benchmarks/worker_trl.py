"""TRL's side: a `GRPOTrainer` on the same model, prompts, rewards and settings, halted between steps.

Imports of Rollwise are its settings and tasks only, to read the same recipe and score with the same verifier.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from turns import Turns

from rollwise.assemble import load_tasks, resolve
from rollwise.config import RunConfig
from rollwise.curriculum.uniform import Uniform
from rollwise.records import StopReason
from rollwise.starters import starter_path


class Halted(TrainerCallback):  # type: ignore[misc]
    """Halts before each step; `report` is filled while the step runs."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.report: dict[str, Any] = {}

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self.turns.next(self.report)
        self.report = {}


def arguments(config: RunConfig, output: str, options: dict[str, Any]) -> GRPOConfig:
    """The recipe in TRL's words: one optimizer update from all completions of a step, and nothing but the step."""
    rows = config.prompts_per_step * config.group_size
    micro = options.pop("per_device_train_batch_size", rows)
    learner, objective = config.learner, config.objective
    return GRPOConfig(
        **{
            "output_dir": output,
            "use_cpu": True,
            "bf16": False,
            "gradient_checkpointing": False,
            "seed": config.seed,
            "max_steps": 1_000_000,
            "per_device_train_batch_size": micro,
            "gradient_accumulation_steps": rows // micro,
            "num_generations": config.group_size,
            "max_completion_length": config.sampling.max_completion_length,
            "temperature": config.sampling.temperature,
            "top_p": config.sampling.top_p,
            "top_k": 0,
            "shuffle_dataset": False,
            "loss_type": "dapo",  # the mean over all tokens of the update, as objective.reduction=token
            "scale_rewards": "group",
            "beta": 0.0,
            "epsilon": objective.clip_low,
            "epsilon_high": objective.clip_high,
            "learning_rate": learner.lr,
            "lr_scheduler_type": "constant_with_warmup",
            "warmup_steps": learner.warmup_updates,
            "adam_beta1": learner.beta1,
            "adam_beta2": learner.beta2,
            "adam_epsilon": learner.eps,
            "weight_decay": learner.weight_decay,
            "max_grad_norm": learner.max_grad_norm,
            "report_to": "none",
            "logging_steps": 1_000_000,
            "save_strategy": "no",
            "eval_strategy": "no",
            "disable_tqdm": True,
            "dataloader_pin_memory": False,
            **options,
        }
    )


def main() -> None:
    given = json.loads(sys.argv[1])
    options: dict[str, Any] = given["trl"]
    config = resolve([("benchmark", given["settings"])])
    torch.set_num_threads(1)
    (task,) = load_tasks(config).values()
    tokenizer = AutoTokenizer.from_pretrained(starter_path(config.task))
    eos = tokenizer.eos_token_id
    halted = Halted()
    as_text = options.pop("prompt_as_text", True)  # spares TRL the chat template, which it would run 256 times a step

    def reward(completions: list[Any], completion_ids: list[list[int]], answer: list[str], **_: Any) -> list[float]:
        halted.report["tokens"] = sum(map(len, completion_ids))
        halted.report["rollouts"] = len(completions)
        texts = completions if as_text else [c[0]["content"] for c in completions]
        ends = [StopReason.eos if ids[-1] == eos else StopReason.length for ids in completion_ids]
        scores = [task.verify(t, json.loads(a), e).score for t, a, e in zip(texts, answer, ends, strict=True)]
        halted.report["accuracy"] = sum(s == 1 for s in scores) / len(scores)
        return scores

    drawn = Uniform(task.train, seed=config.seed).draw(config.prompts_per_step * (given["steps"] + 2))
    prompts: list[Any] = [p.messages for p in drawn]
    if as_text:
        prompts = [tokenizer.apply_chat_template(m, tokenize=False, add_generation_prompt=True) for m in prompts]
        first = tokenizer.apply_chat_template(drawn[0].messages, add_generation_prompt=True, return_dict=False)
        assert tokenizer(prompts[0])["input_ids"] == first, "text and messages must give the same prompt ids"
    trainer = GRPOTrainer(
        model=str(starter_path(config.task)),
        processing_class=tokenizer,
        reward_funcs=reward,
        args=arguments(config, given["output"], options),
        train_dataset=Dataset.from_dict({"prompt": prompts, "answer": [json.dumps(p.answer) for p in drawn]}),
        callbacks=[halted],
    )
    roll_out = trainer._generate_and_score_completions

    def timed(inputs: Any) -> Any:
        began = time.perf_counter()
        out = roll_out(inputs)
        halted.report["generate"] = time.perf_counter() - began
        return out

    trainer._generate_and_score_completions = timed  # rollouts with their rewards and advantages
    trainer.train()


if __name__ == "__main__":
    main()
