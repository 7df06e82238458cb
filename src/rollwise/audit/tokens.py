"""Token counts without torch: the `tokenizer.json` of a model, where it is on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def tokenizer_file(model: str) -> Path | None:
    """The tokenizer of a model folder, or of a hub name whose files were fetched before. Downloads nothing."""
    local = Path(model).expanduser() / "tokenizer.json"
    if local.is_file():
        return local
    if Path(model).expanduser().exists():
        return None
    from huggingface_hub import try_to_load_from_cache

    try:
        cached = try_to_load_from_cache(model, "tokenizer.json")
    except ValueError:  # not a name the hub can have
        return None
    return Path(cached) if isinstance(cached, str) else None


def count_tokens(model: str) -> Callable[[str], int] | None:
    """How many tokens a text is for a model, special tokens not counted; None where its tokenizer is not at hand."""
    file = tokenizer_file(model)
    if file is None:
        return None
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception:  # the library raises a bare Exception for a file it cannot read
        return None
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
