"""The model being trained, its tokenizer, and how a prompt becomes token ids.

Sampler and learner share one `Policy`. It is any transformers causal language model, by folder or hub name, or an
image-text model whose plain forward pass can be repeated row by row (`_vision_fault` asks it).
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rollwise.errors import PromptTooLong, UserError, show
from rollwise.records import IDS, Image, Prompt
from rollwise.vision.probe import vision_fault
from rollwise.vision.reader import Inputs, Vision, load_processor, vision_tower

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
    vision: Vision | None = None  # of an image-text model
    blind: str = ""  # why it reads text only, where an image-text model does
    closed: torch.Tensor | None = None  # int64: ids that are never sampled, those that stand for pictures

    @property
    def device(self) -> torch.device:
        device: torch.device = next(self.model.parameters()).device
        return device

    @property
    def vocab_size(self) -> int:
        return int(self.model.get_output_embeddings().weight.shape[0])

    @property
    def axes(self) -> int:
        """Numbers in the position of a token: one, or three of a model with positions in time, height and width."""
        return 1 if self.vision is None else self.vision.axes

    def precision(self) -> contextlib.AbstractContextManager[Any]:
        """The context every forward pass runs in."""
        if self.bfloat16:
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def trunk(
        self,
        ids: torch.Tensor,
        position: torch.Tensor | None = None,
        attend: torch.Tensor | None = None,
        pixels: Inputs | None = None,
    ) -> torch.Tensor:
        """Hidden states [R, L, D] before the output embedding, for right-padded ids [R, L].

        No attention mask is needed where a row is one text: under causal attention padding on the right never reaches
        a real token. `attend` [R, 1, L, L] and `position` [R, L] lay several texts out in one row. `pixels` are the
        pictures of all rows, with positions [3, R, L] where the model has positions in space.
        """
        return self.model.base_model(  # type: ignore[no-any-return]
            input_ids=ids, use_cache=False, **laid_out(position, attend), **(pixels or {})
        )[0]

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [N, V] of hidden states [N, D]."""
        return self.model.get_output_embeddings()(hidden)  # type: ignore[no-any-return]

    def open(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits [N, V] with those of tokens that are never sampled at the lowest finite number: their probability is
        zero and so is their share of an entropy."""
        return logits if self.closed is None else logits.index_fill(-1, self.closed, torch.finfo(logits.dtype).min)

    def positions(self, ids: np.ndarray, images: tuple[Image, ...]) -> np.ndarray:
        """Position of each prompt token, int64 [axes, P]; one axis but for models with positions in space."""
        return np.arange(len(ids))[None] if self.vision is None else self.vision.positions(ids, images)

    def pixels(self, prompts: Sequence[tuple[Image, ...]]) -> Inputs:
        """The pictures of several prompts as the model takes them, in order; empty where there are none."""
        return self.vision.batch(prompts) if self.vision is not None and any(prompts) else {}

    def encode(self, prompt: Prompt, limit: int) -> np.ndarray:
        """Prompt ids, int32 [P], P from 1 to `limit`: messages through the chat template, text as it is, each picture
        as its many tokens. Raises UserError where the tokenizer cannot, or the prompt is longer: it is never cut."""
        try:
            ids = self._encode(prompt)
        except UserError:
            raise
        except Exception as error:  # templates and tokenizers are the model's own code and raise what they like
            reason = " ".join(str(error).split())[:120]
            raise UserError(f"prompt {prompt.uid}: this model's tokenizer cannot encode it ({reason})") from None
        if len(ids) and max(ids) >= self.vocab_size:
            raise UserError(
                f"prompt {prompt.uid}: token id {max(ids)} is beyond the model's {self.vocab_size}; "
                "its tokenizer is not this model's"
            )
        if not len(ids):
            raise UserError(f"prompt {prompt.uid} has 0 tokens; sampling.max_prompt_length allows 1 to {limit}")
        if len(ids) > limit:
            seen = self.vision.image_tokens(np.asarray(ids)) if self.vision else 0
            those = f" ({seen} of them of its images; images.max_pixels bounds those)" if seen else ""
            raise PromptTooLong(
                f"prompt {prompt.uid} has {len(ids)} tokens{those}; "
                f"sampling.max_prompt_length allows 1 to {limit}: set it to {len(ids)} or more",
                len(ids),
            )
        return np.asarray(ids, dtype=IDS)

    def _encode(self, prompt: Prompt) -> Sequence[int] | np.ndarray:
        if self.vision is None and prompt.images:
            why = self.blind or "this model reads text only; give an image-text model"
            raise UserError(f"prompt {prompt.uid} has images, and {why}")
        if prompt.messages is None and not prompt.images:
            if self.vision is not None:
                self.vision.check_text(str(prompt.text), prompt.uid)
            return self.tokenizer(prompt.text, add_special_tokens=True)["input_ids"]  # type: ignore[no-any-return]
        if self._chat_template() is None:
            raise UserError("model: its tokenizer has no chat template; for a base model set task_args.template=base")
        if self.vision is not None:
            return self.vision.encode(prompt)
        return self.tokenizer.apply_chat_template(  # type: ignore[no-any-return]
            [_plain(m) for m in prompt.messages or ()], add_generation_prompt=True, tokenize=True, return_dict=False
        )

    def _chat_template(self) -> Any:
        own = None if self.vision is None else self.vision.processor.chat_template
        return own or self.tokenizer.chat_template

    def freeze_vision(self) -> None:
        """Take the vision tower out of training. Raises UserError where there is none."""
        if self.vision is None:
            raise UserError("learner.freeze_vision is true, and this model reads text only; set it to false")
        vision_tower(self.model).requires_grad_(False)

    @property
    def finite(self) -> bool:
        """Whether every weight is."""
        return all(bool(torch.isfinite(p).all()) for p in self.model.parameters())

    def save(self, folder: Path) -> None:
        """Write an ordinary Hugging Face folder: weights, and tokenizer or processor."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        if self.vision is not None:
            self.vision.processor.save_pretrained(folder)

    def decode(self, completions: Iterable[np.ndarray]) -> list[str]:
        """Texts of completions, without special tokens. For verifiers and people."""
        return self.tokenizer.batch_decode(  # type: ignore[no-any-return]
            [c.tolist() for c in completions], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message without images as templates of text models take it: its content in one piece."""
    content = message["content"]
    return message if isinstance(content, str) else {**message, "content": "".join(p["text"] for p in content)}


def laid_out(position: torch.Tensor | None, attend: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """The arguments that tell a model where the tokens of a row stand; none for plain rows, which every model takes."""
    given = {"position_ids": position, "attention_mask": attend}
    return {name: value for name, value in given.items() if value is not None}


def load_policy(
    name: str,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    min_pixels: int = 3136,
    max_pixels: int = 401_408,
    cache_bytes: int = 2**29,
) -> Policy:
    """Load model and tokenizer from a folder or hub name; for an image-text model its processor, with pictures scaled
    to `min_pixels` and `max_pixels` and `cache_bytes` of them kept. Raises UserError naming what is missing or
    unreadable."""
    target = _target(name)
    sees, reads = _kinds(target, name)
    pixels = (min_pixels, max_pixels, cache_bytes)
    try:
        policy = _loaded(target, name, device, sees, pixels)
    except UserError as error:
        if not (sees and reads):
            raise
        policy = _loaded(target, name, device, False, pixels)
        policy.blind = str(error).removeprefix("model: ")
    policy.bfloat16 = dtype == "bfloat16"
    return policy


def load_reader(name: str, *, min_pixels: int = 3136, max_pixels: int = 401_408, cache_bytes: int = 2**29) -> Policy:
    """A policy without weights, to encode and decode with where the model itself is elsewhere. Raises UserError as
    `load_policy` does."""
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForImageTextToText,
        AutoTokenizer,
        GenerationConfig,
    )

    target = _target(name)
    sees, _ = _kinds(target, name)
    try:
        config = AutoConfig.from_pretrained(target)
        with torch.device("meta"):
            model = (AutoModelForImageTextToText if sees else AutoModelForCausalLM).from_config(config)
        with contextlib.suppress(OSError):  # not every model has one
            model.generation_config = GenerationConfig.from_pretrained(target)
        processor = load_processor(target, config) if sees else None
        tokenizer = processor.tokenizer if processor is not None else AutoTokenizer.from_pretrained(target)
    except UserError:
        raise
    except Exception as error:
        raise _unreadable(name, error) from None
    pixels = {"min_pixels": min_pixels, "max_pixels": max_pixels, "cache_bytes": cache_bytes}
    return _dressed(model, tokenizer, Vision(processor, model, **pixels) if sees else None)


def _target(name: str) -> str:
    """What transformers is given: a folder that can hold a model, or a hub name. Raises UserError."""
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
    return str(where) if local else name


def _kinds(target: str, name: str) -> tuple[bool, bool]:
    """Whether the folder is of an image-text model, and whether it can be read as a text model. Raises UserError."""
    from transformers import AutoConfig
    from transformers.models.auto import modeling_auto as table

    try:
        config = AutoConfig.from_pretrained(target)
    except Exception as error:
        raise _unreadable(name, error) from None
    kind, reads = config.model_type, config.model_type in table.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    whole = table.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.get(kind)
    return whole is not None and (not reads or whole in (config.architectures or ())), reads


def _unreadable(name: str, error: Exception) -> UserError:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return UserError(f"model: {name} cannot be loaded ({reason})")


def _loaded(target: str, name: str, device: str, sees: bool, pixels: tuple[int, int, int]) -> Policy:
    """The policy of a folder or hub name, as an image-text model or as a text model."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer
    from transformers.utils import logging as hf_logging

    hf_logging.disable_progress_bar()
    said = hf_logging.get_verbosity()
    hf_logging.set_verbosity(hf_logging.CRITICAL)  # what is wrong with a checkpoint is said below, in one line
    try:
        model, loading = (AutoModelForImageTextToText if sees else AutoModelForCausalLM).from_pretrained(
            target, dtype=torch.float32, use_safetensors=True, output_loading_info=True
        )
        processor = load_processor(target, model.config) if sees else None
        tokenizer = processor.tokenizer if processor is not None else AutoTokenizer.from_pretrained(target)
    except UserError:
        raise
    except Exception as error:  # transformers raises many kinds for an unreadable folder; all are the user's to mend
        raise _unreadable(name, error) from None
    finally:
        hf_logging.set_verbosity(said)
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
    least, most, cached = pixels
    vision = Vision(processor, model, min_pixels=least, max_pixels=most, cache_bytes=cached) if sees else None
    return wrap(model, tokenizer, vision)


def wrap(model: Any, tokenizer: Any, vision: Vision | None = None) -> Policy:
    """A `Policy` of a model and tokenizer already in memory. Raises UserError for an image-text model whose forward
    pass cannot be repeated row by row."""
    model.eval()  # dropout would make stored log-probs those of no policy
    policy = _dressed(model, tokenizer, vision)
    if vision is not None and (fault := vision_fault(vision)):
        raise UserError(f"model: images of a {model.config.model_type} model are not supported here ({fault})")
    policy.split_head = _head_is_separable(policy)
    policy.shares_prompt = policy.split_head and _prompt_is_shareable(policy)
    return policy


def _dressed(model: Any, tokenizer: Any, vision: Vision | None) -> Policy:
    """A policy of which nothing has been asked yet."""
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
    return Policy(
        model=model,
        tokenizer=tokenizer,
        eos_ids=eos,
        pad_id=eos[0] if pad is None or pad >= rows else int(pad),
        split_head=False,
        shares_prompt=False,
        cache_argument="cache" if "cache" in forward else "past_key_values",
        vision=vision,
        closed=None if vision is None else torch.tensor(vision.closed, device=model.device),
    )


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
    config = policy.model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
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
    config = policy.model.config.get_text_config()
    return not getattr(config, "use_sliding_window", False) and (
        getattr(config, "sliding_window", None) is None or hasattr(config, "use_sliding_window")
    )
