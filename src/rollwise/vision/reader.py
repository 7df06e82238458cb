"""How one image-text model is fed: prompts to token ids, pictures to tensors, and the position of each token.

The model's own processor expands each picture's mark to as many tokens as the model has features for it, so that a
prompt's length counts its pictures. It runs on Pillow always, also where torchvision is installed: the pixels do not
depend on what else a machine has. What it makes of pictures is a dict of tensors that is handed to the model by name;
nothing here knows what stands in it.

Token ids that stand for pictures, videos or their boundaries are never sampled, and never a target: a completion with
one would have a token without a feature. They are left out of the distribution, in sampler and learner alike.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from rollwise.errors import UserError
from rollwise.records import IDS, Image, Prompt
from rollwise.vision.images import pillow, read_image
from rollwise.vision.store import Bounded

TEXT_FIELDS = ("input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids")
BEHIND_ROWS = ("idefics2", "idefics3", "smolvlm")  # families whose pixels are [rows, images, ...], not [images, ...]
WORDS = ("image", "video", "vision", "audio", "boi_", "eoi_")  # in the names of tokens that stand for no text
Inputs = dict[str, torch.Tensor]


class Vision:
    """The processor of a model, with its pictures of late: at most `cache_bytes` of tensors."""

    def __init__(self, processor: Any, model: Any, *, min_pixels: int, max_pixels: int, cache_bytes: int) -> None:
        self.processor, self.model = processor, model
        self.min_pixels, self.max_pixels = min_pixels, max_pixels
        config = model.config
        image_id = getattr(config, "image_token_id", None) or getattr(config, "image_token_index", None)
        if not isinstance(image_id, int) or not hasattr(processor, "image_token"):
            raise UserError(f"model: {config.model_type} has no token that stands for an image; choose another model")
        self.image_id = image_id
        self.axes = 3 if hasattr(model.base_model, "get_rope_index") else 1
        self.closed = closed_ids(processor, config, model.get_output_embeddings().weight.shape[0])
        self._marks = [processor.tokenizer.convert_ids_to_tokens(i) for i in self.closed]
        self._behind = config.model_type in BEHIND_ROWS
        self._ids: Bounded[np.ndarray] = Bounded(cache_bytes // 16)
        self._inputs: Bounded[Inputs] = Bounded(cache_bytes)
        self._positions: Bounded[np.ndarray] = Bounded(cache_bytes // 16)

    def encode(self, prompt: Prompt) -> np.ndarray:
        """Token ids int32 [P], each picture expanded to its own. Raises UserError for messages and images that do not
        fit together and for files that are no pictures; whatever the processor raises otherwise."""
        text = self.processor.apply_chat_template(self._parts(prompt), add_generation_prompt=True, tokenize=False)

        def make() -> np.ndarray:
            fields = self._process(text, self._pictures(prompt.images, f"prompt {prompt.uid}"))
            ids: np.ndarray = fields.pop("input_ids")[0].numpy().astype(IDS)
            if prompt.images:
                self._inputs.get(prompt.images, lambda: _of_images(fields), _bytes)
            return ids

        return self._ids.get((text, prompt.images), make, lambda ids: ids.nbytes)

    def whole(self, prompt: Prompt) -> dict[str, torch.Tensor]:
        """All the processor says of a prompt, as the model's own forward pass takes it; one row."""
        text = self.processor.apply_chat_template(self._parts(prompt), add_generation_prompt=True, tokenize=False)
        return self._process(text, self._pictures(prompt.images, f"prompt {prompt.uid}"))

    def image_tokens(self, ids: np.ndarray) -> int:
        return int((ids == self.image_id).sum())

    def inputs(self, images: tuple[Image, ...]) -> Inputs:
        """The tensors of the pictures of one prompt."""

        def make() -> Inputs:
            marks = self.processor.image_token * len(images)
            return _of_images(self._process(marks, self._pictures(images, "a prompt")))

        return self._inputs.get(images, make, _bytes)

    def batch(self, prompts: Iterable[tuple[Image, ...]]) -> Inputs:
        """The tensors of all pictures of several prompts in order, on the model's device; empty where there are none.
        Pictures laid out in different sizes are padded with zeros."""
        each = [self.inputs(images) for images in prompts if images]
        device = next(self.model.parameters()).device
        along = 1 if self._behind else 0
        return {name: _joined([i[name] for i in each], along).to(device) for name in (each[0] if each else ())}

    def positions(self, ids: np.ndarray, images: tuple[Image, ...]) -> np.ndarray:
        """Position of each prompt token, int64 [axes, P]. Models with positions in time, height and width say them
        themselves; a completion goes on behind the largest."""
        if not images or self.axes == 1:
            return np.tile(np.arange(len(ids)), (self.axes, 1))

        def make() -> np.ndarray:
            row = torch.from_numpy(ids.astype(np.int64))[None]
            found, _ = self.model.base_model.get_rope_index(
                row, mm_token_type_ids=(row == self.image_id).int(), **self.inputs(images)
            )
            return found[:, 0].numpy()  # type: ignore[no-any-return]

        return self._positions.get((ids.tobytes(), images), make, lambda p: p.nbytes)

    def _process(self, text: str, pictures: list[Any]) -> dict[str, torch.Tensor]:
        images = {"images": pictures} if pictures else {}
        fields = self.processor(text=[text], add_special_tokens=False, return_tensors="pt", **images)
        return {name: value for name, value in fields.items() if isinstance(value, torch.Tensor)}

    def _pictures(self, images: tuple[Image, ...], where: str) -> list[Any]:
        out = []
        for number, image in enumerate(images, 1):
            try:
                out.append(read_image(image, min_pixels=self.min_pixels, max_pixels=self.max_pixels))
            except ValueError as error:
                raise UserError(f"{where}: image {number} cannot be read ({error})") from None
        return out

    def _parts(self, prompt: Prompt) -> list[dict[str, Any]]:
        """The messages with every content as a list of parts. Raises UserError where images and parts do not match."""
        if prompt.messages is None:
            raise UserError(f"prompt {prompt.uid} has images and no messages to put them in; use a chat template")
        out = []
        for message in prompt.messages:
            content = message["content"]
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            out.append({**message, "content": parts})
        every = list(itertools.chain.from_iterable(m["content"] for m in out))
        places = sum(part["type"] == "image" for part in every)
        if places != len(prompt.images):
            raise UserError(f"prompt {prompt.uid} has {len(prompt.images)} images and {places} places for them")
        for text in (part["text"] for part in every if part["type"] == "text"):
            self.check_text(text, prompt.uid)
        return out

    def check_text(self, text: str, uid: str) -> None:
        """Raises UserError where a text holds what this model reads as a picture."""
        if mark := next((m for m in self._marks if m in text), None):
            raise UserError(f"prompt {uid}: its text holds {mark}, which stands for an image here; take it out")


def _of_images(fields: dict[str, torch.Tensor]) -> Inputs:
    return {name: value for name, value in fields.items() if name not in TEXT_FIELDS}


def _bytes(inputs: Inputs) -> int:
    return sum(t.numel() * t.element_size() for t in inputs.values())


def _joined(tensors: Sequence[torch.Tensor], along: int) -> torch.Tensor:
    """End to end along one axis, the others padded with zeros to the largest."""
    largest = [max(sizes) for sizes in zip(*(t.shape for t in tensors), strict=True)]
    if all(n == m for t in tensors for d, (n, m) in enumerate(zip(t.shape, largest, strict=True)) if d != along):
        return torch.cat(list(tensors), dim=along)
    padded = []
    for t in tensors:
        shape = [t.shape[d] if d == along else m for d, m in enumerate(largest)]
        room = t.new_zeros(shape)
        room[tuple(slice(n) for n in t.shape)] = t
        padded.append(room)
    return torch.cat(padded, dim=along)


def closed_ids(processor: Any, config: Any, size: int) -> tuple[int, ...]:
    """Ids of tokens that stand for pictures, videos, sound or their boundaries: what config and processor name so, and
    special tokens named so. `size` is the number of rows of the output embedding."""
    named = {**vars(processor), **config.to_dict()}
    found = {
        value
        for name, value in named.items()
        if isinstance(value, int) and "token" in name and name.endswith(("_id", "_index")) and _stands_for_no_text(name)
    }
    for i, token in processor.tokenizer.added_tokens_decoder.items():
        if token.special and _stands_for_no_text(token.content):
            found.add(i)
    return tuple(sorted(i for i in found if 0 <= i < size))


def _stands_for_no_text(name: str) -> bool:
    return any(word in name.lower() for word in WORDS)


def load_processor(target: str, config: Any) -> Any:
    """The processor of a model folder or hub name, for pictures and text only and on Pillow. Raises UserError where its
    family has none."""
    import transformers
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES

    pillow()
    name = PROCESSOR_MAPPING_NAMES.get(config.model_type)
    family = getattr(transformers, str(name), None)
    if family is None:
        raise UserError(f"model: transformers has no processor for {config.model_type}; choose another model")
    return pictures_only(family).from_pretrained(target, backend="pil")


def pictures_only(family: Any) -> Any:
    """The processor class without its parts for video and sound, which need torchvision and are never used here.
    Raises UserError where it cannot be made without."""
    kept = [a for a in family.get_attributes() if "video" not in a and "audio" not in a]
    arguments = inspect.signature(family.__init__).parameters
    needed = [a for a in set(family.get_attributes()) - set(kept) if arguments[a].default is inspect.Parameter.empty]
    if needed:
        raise UserError(f"model: transformers' {family.__name__} cannot do without its {needed[0]}; not supported here")
    return type(family.__name__, (family,), {"get_attributes": classmethod(lambda cls: kept)})


def vision_tower(model: Any) -> Any:
    """The module that sees, with what joins it to the text model where that is part of it. Raises UserError."""
    tower = model.get_encoder(modality="image")
    if tower is model or tower is model.base_model:
        raise UserError(f"learner.freeze_vision: {model.config.model_type} has no vision tower of its own to freeze")
    return tower
