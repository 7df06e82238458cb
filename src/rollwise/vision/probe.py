"""Whether an image-text model can be fed in batches of rows with none, one and several pictures; asked, not assumed.

Three prompts are read as the model's own processor and forward pass read them, one by one, and then in one batch as
sampler and learner feed them, padded on the right and on the left. Families whose pixels or masks are laid out in a way
of their own (attention in both directions among the tokens of a picture, cross-attention) give something else there.
"""

from __future__ import annotations

import io

import numpy as np
import torch

from rollwise.records import Image, Prompt
from rollwise.vision.images import pillow
from rollwise.vision.reader import Inputs, Vision

CLOSE = 1e-3  # largest difference, in standard deviations of the logits


@torch.no_grad()
def vision_fault(vision: Vision) -> str:
    """What is wrong, in a few words; empty where nothing is."""
    try:
        alone, ids = [], []
        prompts = _prompts()
        for prompt in prompts:
            fields = {name: value.to(vision.model.device) for name, value in vision.whole(prompt).items()}
            alone.append(vision.model(**fields, use_cache=False).logits[0].float())
            ids.append(vision.encode(prompt))
        pixels = vision.batch([p.images for p in prompts])
        for left in (False, True):
            worst = max(_distances(vision, prompts, ids, alone, pixels, left=left))
            if not worst <= CLOSE:
                return "rows of a batch do not give what they give alone"
    except Exception as error:  # a family of another make fails in its own way, and is refused all the same
        return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
    return ""


def _distances(
    vision: Vision,
    prompts: list[Prompt],
    ids: list[np.ndarray],
    alone: list[torch.Tensor],
    pixels: Inputs,
    *,
    left: bool,
) -> list[float]:
    """Of each prompt, how far its logits in the batch are from those alone."""
    width = max(map(len, ids))
    places = [slice(width - len(i), width) if left else slice(0, len(i)) for i in ids]
    row = np.zeros((len(ids), width), dtype=np.int64)
    position = np.zeros((vision.axes, len(ids), width), dtype=np.int64)
    mask = np.zeros((len(ids), width), dtype=np.int64)
    for n, (prompt, place) in enumerate(zip(prompts, places, strict=True)):
        row[n, place], mask[n, place] = ids[n], 1
        position[:, n, place] = vision.positions(ids[n], prompt.images)
    device = vision.model.device
    logits = vision.model(
        input_ids=torch.from_numpy(row).to(device),
        attention_mask=torch.from_numpy(mask).to(device) if left else None,
        position_ids=torch.from_numpy(position if vision.axes > 1 else position[0]).to(device),
        use_cache=False,
        **pixels,
    ).logits.float()
    return [
        float((logits[n, place] - one).abs().max() / one.std().clamp_min(1e-6))
        for n, (place, one) in enumerate(zip(places, alone, strict=True))
    ]


def _prompts() -> list[Prompt]:
    """With two pictures, none and one, of different sizes."""
    return [_prompt("a", [(60, 90), (70, 40)]), _prompt("some words", []), _prompt("b c", [(120, 50)])]


def _prompt(words: str, sizes: list[tuple[int, int]]) -> Prompt:
    parts = [*({"type": "image"} for _ in sizes), {"type": "text", "text": words}]
    images = tuple(Image(_picture(size)) for size in sizes)
    return Prompt(uid="probe", messages=[{"role": "user", "content": parts}], images=images)


def _picture(size: tuple[int, int]) -> bytes:
    """A PNG with something to see in it."""
    across, down = np.meshgrid(np.arange(size[0]), np.arange(size[1]))
    pixels = np.stack([across * 2 % 256, down * 3 % 256, across * down % 256], axis=-1).astype(np.uint8)
    file = io.BytesIO()
    pillow().fromarray(pixels).save(file, format="PNG")
    return file.getvalue()
