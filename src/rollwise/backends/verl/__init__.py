"""The same loop and the same parts on verl: Ray, FSDP or Megatron, vLLM or SGLang.

What verl does here, all of it through its public hooks:

* it starts Ray, the worker groups and the rollout servers, moves weights between them, and shards its checkpoints;
* `rollouts` orders completions from its rollout servers, in the place of its agent-loop manager;
* `learner` sends rows to its actor workers, which run `loss` over them.

`trainer` is the registered trainer (`trainer.v1.trainer_mode=rollwise`) that puts `rollwise.loop.Loop` between the two:
curriculum, allocation, replay, advantage, ledger, guard and evaluation are the objects of the local engine.
"""
