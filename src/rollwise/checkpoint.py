"""Checkpoints that are whole or absent.

A checkpoint is written to a temporary folder, every file synced, a manifest with sizes and SHA-256 written last, and
then renamed into place. Reading takes the newest one whose every file matches its manifest, and names those it refused.
The model is a plain Hugging Face folder; arrays go to safetensors, everything else to JSON. Nothing is pickled.

    checkpoints/step_N/{manifest.json, state.json, arrays.safetensors, model/...}
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

from rollwise.errors import UserError

MANIFEST = "manifest.json"
MAX_JSON = 2**31  # bytes of a JSON file this will read
MAX_MANIFEST = 2**24
_ARRAY = "__array__"
_WRITING, _REPLACED = ".writing-", ".replaced-"  # what a folder that is no checkpoint, or no longer, begins with
_NAME = re.compile(r"step_(\d+)")


def save(
    folder: Path, step: int, state: dict[str, Any], write_model: Any, *, keep: int, spare: Collection[int] = ()
) -> Path:
    """Write `folder/step_<step>`, then drop all others but the newest `keep` and those of the steps in `spare`. Later
    steps are dropped too: a run that is at `step` has refused them. `state` holds JSON values and numpy arrays;
    `write_model(path)` writes the model folder. Raises OSError when the disk refuses; older checkpoints stay whole.
    """
    folder.mkdir(parents=True, exist_ok=True)
    bring_back(folder)
    for stale in (*folder.glob(f"{_WRITING}*"), *folder.glob(f"{_REPLACED}*")):
        remove(stale)
    work = folder / f"{_WRITING}step_{step}"
    work.mkdir()
    target = folder / f"step_{step}"
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        arrays: dict[str, np.ndarray] = {}
        plain = _split(state, arrays)
        save_file(arrays, work / "arrays.safetensors")
        (work / "state.json").write_text(json.dumps(plain, allow_nan=False, separators=(",", ":")), encoding="utf-8")
        write_model(work / "model")
        files = sorted(p for p in work.rglob("*") if p.is_file())
        manifest = {
            "step": step,
            "files": {str(p.relative_to(work)): {"bytes": p.stat().st_size, "sha256": _sha256(p)} for p in files},
        }
        (work / MANIFEST).write_text(_manifest_text(manifest), encoding="utf-8")
        for p in (*files, work / MANIFEST, work / "model", work):
            sync(p)
        aside = folder / f"{_REPLACED}step_{step}"
        if target.exists():
            target.rename(aside)
        work.rename(target)
        sync(folder)
        if aside.exists():
            remove(aside)
    except SafetensorError as error:
        shutil.rmtree(work, ignore_errors=True)
        raise OSError(errno.EIO, f"checkpoint cannot be written ({error})", str(target)) from None
    except OSError as error:
        shutil.rmtree(work, ignore_errors=True)
        error.filename = error.filename or str(target)  # a full disk is not told of with a name
        raise
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    for other in steps(folder):
        if other not in spare and other not in [s for s in steps(folder) if s <= step][-keep:]:
            remove(folder / f"step_{other}")
    return target


def bring_back(folder: Path) -> list[str]:
    """Give a checkpoint that was set aside for its successor its name again, where a kill came before the successor
    had it. Returns their names."""
    back = []
    for aside in folder.glob(f"{_REPLACED}*"):
        target = folder / aside.name.removeprefix(_REPLACED)
        if not target.exists():
            aside.rename(target)
            back.append(target.name)
    return back


def remove(path: Path) -> None:
    """A folder with all in it; of anything else, such as a link or a pipe, the name."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def steps(folder: Path) -> list[int]:
    """Steps with a checkpoint folder, oldest first; not yet verified."""
    found = (_NAME.fullmatch(p.name) for p in folder.iterdir()) if folder.is_dir() else iter(())
    return sorted(int(m.group(1)) for m in found if m)


def newest(folder: Path, fits: Callable[[Path], str | None] = lambda path: None) -> tuple[Path, list[str]]:
    """The newest checkpoint that verifies and `fits` (None, or what is wrong), and a line on each newer one that was
    refused. UserError without one."""
    refused: list[str] = []
    for step in reversed(steps(folder)):
        path = folder / f"step_{step}"
        try:
            fault = verify(path) or fits(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            fault = f"unreadable ({type(error).__name__})"  # whole by its hashes, and yet no state of a run
        if fault is None:
            return path, refused
        refused.append(f"{path.name} refused: {fault}")
    detail = f" ({'; '.join(refused)})" if refused else ""
    raise UserError(f"{folder}: no usable checkpoint{detail}; start the run anew")


def verify(path: Path) -> str | None:
    """What is wrong with a checkpoint folder, or None if every file is there, whole and no other is."""
    try:
        if not (path / MANIFEST).is_file():
            return "it has no manifest"
        manifest = _read_json(path / MANIFEST, MAX_MANIFEST)
        listed = manifest["files"]
        if (path / MANIFEST).read_text(encoding="utf-8") != _manifest_text(manifest):
            return "its manifest is not as it was written"
        if f"step_{manifest['step']}" != path.name:
            return "its manifest is that of another step"
        if not isinstance(listed, dict) or not {"state.json", "arrays.safetensors"} <= set(listed):
            return "its manifest lists no state"
        present = set()
        for p in path.rglob("*"):
            if p.is_symlink():
                return f"{p.relative_to(path)} is a link"
            if not p.is_file() and not p.is_dir():  # a pipe would be waited for
                return f"{p.relative_to(path)} is no file"
            if p.is_file():
                present.add(str(p.relative_to(path)))
        if present - {MANIFEST} != set(listed):
            odd = sorted((present - {MANIFEST}) ^ set(listed))
            return f"files and manifest differ: {', '.join(odd[:3])}"
        for name, entry in listed.items():
            if (path / name).stat().st_size != entry["bytes"]:
                return f"{name} has another size"
            if _sha256(path / name) != entry["sha256"]:
                return f"{name} has another content"
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return f"unreadable ({type(error).__name__})"
    return None


def load(path: Path) -> dict[str, Any]:
    """The state of a verified checkpoint. Raises ValueError where it is not one."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays = load_file(path / "arrays.safetensors")
    except SafetensorError as error:
        raise ValueError(f"arrays.safetensors: {error}") from None
    return _join(_read_json(path / "state.json"), arrays)  # type: ignore[no-any-return]


def _manifest_text(manifest: Any) -> str:
    return json.dumps(manifest, indent=1)


def _split(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """JSON of `value`, its arrays moved to `arrays` under numbered names."""
    if isinstance(value, np.ndarray):
        name = f"a{len(arrays)}"
        arrays[name] = np.ascontiguousarray(value)
        return {_ARRAY: name, "shape": list(value.shape)}
    if isinstance(value, dict):
        assert _ARRAY not in value, f"a saved state has a key {_ARRAY}, which marks arrays"
        return {k: _split(v, arrays) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_split(v, arrays) for v in value]
    return value


def _join(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if _ARRAY in value:
            return arrays[value[_ARRAY]].reshape(value["shape"])
        return {k: _join(v, arrays) for k, v in value.items()}
    if isinstance(value, list):
        return [_join(v, arrays) for v in value]
    return value


def _read_json(path: Path, most: int = MAX_JSON) -> Any:
    if path.stat().st_size > most:
        raise ValueError("too large")
    return json.loads(path.read_text(encoding="utf-8"))


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def sync(path: Path) -> None:
    """What was written to a file, or the names in a folder, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
