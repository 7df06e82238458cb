"""The model being trained, its tokenizer, and how a prompt becomes token ids.

Sampler and learner share one `Policy`. It is any transformers causal language model, by folder or hub name.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rollwise.errors import UserError, show
from rollwise.records import IDS, Prompt

TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model", "tekken.json")


@dataclass(slots=True, kw_only=True)
class Policy:
    """A causal language model with what is needed to feed it. `model(ids).logits` are its next-token logits."""

    model: Any
    tokenizer: Any
    eos_ids: tuple[int, ...]  # every id that ends a completion
    pad_id: int  # fills unused places; never read, masks come from lengths
    split_head: bool  # whether logits equal `head(trunk(x))`, so that they can be computed in chunks
    shares_prompt: bool  # whether completions of one prompt can be fed in one sequence, kept apart by a mask
    cache_argument: str  # name under which this model takes its KV cache
    bfloat16: bool = False  # matrix products in bfloat16; the weights stay float32

    @property
    def device(self) -> torch.device:
        device: torch.device = next(self.model.parameters()).device
        return device

    @property
    def vocab_size(self) -> int:
        return int(self.model.get_output_embeddings().weight.shape[0])

    def precision(self) -> contextlib.AbstractContextManager[Any]:
        """The context every forward pass runs in."""
        if self.bfloat16:
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def trunk(
        self, ids: torch.Tensor, position: torch.Tensor | None = None, attend: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Hidden states [R, L, D] before the output embedding, for right-padded ids [R, L].

        No attention mask is needed where a row is one text: under causal attention padding on the right never reaches
        a real token. `attend` [R, 1, L, L] and `position` lay several texts out in one row.
        """
        return self.model.base_model(input_ids=ids, use_cache=False, **laid_out(position, attend))[0]  # type: ignore[no-any-return]

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [N, V] of hidden states [N, D]."""
        return self.model.get_output_embeddings()(hidden)  # type: ignore[no-any-return]

    def encode(self, prompt: Prompt, limit: int) -> np.ndarray:
        """Prompt ids, int32 [P], P from 1 to `limit`: messages through the chat template, text as it is. Raises
        UserError where the tokenizer cannot, or the prompt is longer: it is never cut."""
        if prompt.messages is not None and self.tokenizer.chat_template is None:
            raise UserError("model: its tokenizer has no chat template; for a base model set task_args.template=base")
        try:
            if prompt.messages is not None:
                ids = self.tokenizer.apply_chat_template(
                    prompt.messages, add_generation_prompt=True, tokenize=True, return_dict=False
                )
            else:
                ids = self.tokenizer(prompt.text, add_special_tokens=True)["input_ids"]
        except Exception as error:  # templates and tokenizers are the model's own code and raise what they like
            reason = " ".join(str(error).split())[:120]
            raise UserError(f"prompt {prompt.uid}: this model's tokenizer cannot encode it ({reason})") from None
        if ids and max(ids) >= self.vocab_size:
            raise UserError(
                f"prompt {prompt.uid}: token id {max(ids)} is beyond the model's {self.vocab_size}; "
                "its tokenizer is not this model's"
            )
        if not 0 < len(ids) <= limit:
            raise UserError(
                f"prompt {prompt.uid} has {len(ids)} tokens; sampling.max_prompt_length allows 1 to {limit}"
            )
        return np.asarray(ids, dtype=IDS)

    def decode(self, completions: Iterable[np.ndarray]) -> list[str]:
        """Texts of completions, without special tokens. For verifiers and people."""
        return self.tokenizer.batch_decode(  # type: ignore[no-any-return]
            [c.tolist() for c in completions], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )


def laid_out(position: torch.Tensor | None, attend: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """The arguments that tell a model of several texts in a row; none for plain rows, which every model takes."""
    return {} if position is None or attend is None else {"position_ids": position, "attention_mask": attend}


def load_policy(name: str, *, device: str = "cpu", dtype: str = "float32") -> Policy:
    """Load model and tokenizer from a folder or hub name. Raises UserError naming what is missing or unreadable."""
    where = Path(name).expanduser()
    local = where.exists() or name.startswith((".", "/", "~"))
    if local and not where.is_dir():
        raise UserError(f"model: {name} is not a folder; give a Hugging Face model folder or a hub name")
    if local and not (where / "config.json").is_file():
        raise UserError(f"model: {name} has no config.json; give a Hugging Face model folder")
    if not local and "/" not in name:
        raise UserError(f"model: {name} is neither a folder nor a hub name (owner/name)")
    if local and not any((where / file).is_file() for file in TOKENIZERS):
        raise UserError(f"model: {name} has no tokenizer; put its tokenizer.json beside config.json")
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as hf_logging

    hf_logging.disable_progress_bar()
    target = str(where) if local else name
    try:
        model, loading = AutoModelForCausalLM.from_pretrained(
            target, dtype=torch.float32, use_safetensors=True, output_loading_info=True
        )
        tokenizer = AutoTokenizer.from_pretrained(target)
    except Exception as error:  # transformers raises many kinds for an unreadable folder; all are the user's to mend
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"model: {name} cannot be loaded ({reason})") from None
    if missing := sorted(loading["missing_keys"]):
        raise UserError(
            f"model: {name} lacks {len(missing)} of its weights ({missing[0]}, ...); give a whole checkpoint"
        )
    bad = next((n for n, p in model.named_parameters() if not bool(torch.isfinite(p).all())), None)
    if bad is not None:
        raise UserError(f"model: {name} holds weights that are not finite ({bad}); give a sound checkpoint")
    try:
        if not re.fullmatch(r"cpu|mps|cuda(:\d+)?", device):
            raise RuntimeError("known: cpu, cuda, cuda:N, mps")
        model.to(device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"device: {device} is not usable here ({str(error).splitlines()[0][:120]})") from None
    policy = wrap(model, tokenizer)
    policy.bfloat16 = dtype == "bfloat16"
    return policy


def wrap(model: Any, tokenizer: Any) -> Policy:
    """A `Policy` of a model and tokenizer already in memory."""
    model.eval()  # dropout would make stored log-probs those of no policy
    eos = _eos_ids(model, tokenizer)
    if not eos:
        raise UserError("model: neither its generation config nor its tokenizer names an end token; set eos_token_id")
    rows = model.get_input_embeddings().weight.shape[0]
    eos = tuple(i for i in eos if i < rows)
    if not eos:
        raise UserError(
            f"model: none of its end tokens is among its {rows} token ids; its tokenizer is not this model's"
        )
    pad = tokenizer.pad_token_id
    forward = inspect.signature(model.forward).parameters
    policy = Policy(
        model=model,
        tokenizer=tokenizer,
        eos_ids=eos,
        pad_id=eos[0] if pad is None or pad >= rows else int(pad),
        split_head=False,
        shares_prompt=False,
        cache_argument="cache" if "cache" in forward else "past_key_values",
    )
    policy.split_head = _head_is_separable(policy)
    policy.shares_prompt = policy.split_head and _prompt_is_shareable(policy)
    return policy


def _eos_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """All end tokens: some models name several, and a run that knows only one calls the rest truncated."""
    found: list[int] = []
    for owner in (getattr(model, "generation_config", None), model.config, tokenizer):
        ids = getattr(owner, "eos_token_id", None)
        for i in ids if isinstance(ids, list | tuple) else [ids]:
            if i is None:
                continue
            if not isinstance(i, int):
                raise UserError(f"model: eos_token_id is {show(i)}; it is a whole number, or a list of them")
            if i not in found:
                found.append(i)
    return tuple(found)


def _head_is_separable(policy: Policy) -> bool:
    """Whether logits are the plain output embedding of the trunk. Some models cap or scale them; asked, not assumed."""
    head = policy.model.get_output_embeddings()
    if head is None or policy.model.base_model is policy.model:
        return False
    probe = torch.arange(6, device=policy.device)[None] % head.weight.shape[0]
    with torch.no_grad():
        whole = policy.model(input_ids=probe, use_cache=False).logits.float()
        parts = policy.head(policy.trunk(probe)).float()
    return whole.shape == parts.shape and torch.allclose(whole, parts, rtol=1e-3, atol=1e-3)


def _prompt_is_shareable(policy: Policy) -> bool:
    """Whether two completions after one prompt, in one sequence under a mask, give what they give alone. Layers with
    state or a window, and attention that takes no mask of its own, do not; asked, not assumed."""
    kinds = set(getattr(policy.model.config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"} or not _has_dense_attention(policy):
        return False
    size = policy.vocab_size
    ids = torch.tensor([[1, 2, 3, 4, 5, 6, 7]], device=policy.device) % size  # prompt of 3, two completions of 2
    segment = torch.tensor([0, 0, 0, 1, 1, 2, 2], device=policy.device)
    attend = ((segment[None] == 0) | (segment[None] == segment[:, None])).tril()[None, None]
    position = torch.tensor([[0, 1, 2, 3, 4, 3, 4]], device=policy.device)
    try:
        with torch.no_grad():
            both = policy.trunk(ids, position, attend)[0].float()
            one = policy.trunk(ids[:, [0, 1, 2, 3, 4]])[0].float()
            two = policy.trunk(ids[:, [0, 1, 2, 5, 6]])[0].float()
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError, KeyError):
        return False
    return torch.allclose(both[:5], one, rtol=1e-3, atol=1e-3) and torch.allclose(
        both[5:], two[3:], rtol=1e-3, atol=1e-3
    )


def _has_dense_attention(policy: Policy) -> bool:
    """Whether no layer limits how far back it looks."""
    config = policy.model.config
    return not getattr(config, "use_sliding_window", False) and (
        getattr(config, "sliding_window", None) is None or hasattr(config, "use_sliding_window")
    )
