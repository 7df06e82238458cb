"""How much memory stored rollouts keep: a running sum, so that asking costs nothing however much is stored."""

from __future__ import annotations

from collections.abc import Iterable

from rollwise.image import Image
from rollwise.records import Rollout


class Holding:
    """Bytes of what is stored, in two sums. `bytes`: token ids, log-probs and texts (UTF-8) of the rollouts, and the
    ids of their prompts, which members share, once a group. `image_bytes`: the prompts' pictures, equal ones once.

    What several parts store counts once where they share one `Holding`. Python's own overhead, some hundred bytes an
    object, is not in it, and neither is what the data set holds anyway.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.image_bytes = 0
        self._rollouts: dict[tuple[str, int, int], list[int]] = {}  # by key: times stored, bytes
        self._prompts: dict[tuple[str, int], int] = {}  # by group and bytes of the prompt's ids: members stored
        self._images: dict[Image, int] = {}  # members stored that have it

    def add(self, rollouts: Iterable[Rollout], beside: int = 0) -> None:
        """They are stored once more, each with `beside` bytes that belong to it."""
        for r in rollouts:
            entry = self._rollouts.setdefault(r.key, [0, 0])
            entry[0] += 1
            if entry[0] > 1:
                continue
            entry[1] = beside + _own(r)
            self.bytes += entry[1]
            prompt = r.group_uid, r.prompt_ids.nbytes
            self._prompts[prompt] = self._prompts.get(prompt, 0) + 1
            if self._prompts[prompt] == 1:
                self.bytes += r.prompt_ids.nbytes
            for image in r.images:
                self._images[image] = self._images.get(image, 0) + 1
                if self._images[image] == 1:
                    self.image_bytes += len(image.data)

    def drop(self, rollouts: Iterable[Rollout]) -> None:
        """They are stored once less."""
        for r in rollouts:
            entry = self._rollouts[r.key]
            entry[0] -= 1
            if entry[0]:
                continue
            del self._rollouts[r.key]
            self.bytes -= entry[1]
            prompt = r.group_uid, r.prompt_ids.nbytes
            self._prompts[prompt] -= 1
            if not self._prompts[prompt]:
                del self._prompts[prompt]
                self.bytes -= r.prompt_ids.nbytes
            for image in r.images:
                self._images[image] -= 1
                if not self._images[image]:
                    del self._images[image]
                    self.image_bytes -= len(image.data)

    def metrics(self, part: str) -> dict[str, float]:
        """<part>/bytes, and <part>/image_bytes where there are any."""
        images = {f"{part}/image_bytes": float(self.image_bytes)} if self.image_bytes else {}
        return {f"{part}/bytes": float(self.bytes), **images}


def _own(rollout: Rollout) -> int:
    arrays = (rollout.completion_ids, rollout.logprobs, rollout.birth_logprobs, rollout.reference_logprobs)
    return sum(a.nbytes for a in arrays if a is not None) + len(rollout.text.encode("utf-8", "surrogatepass"))
