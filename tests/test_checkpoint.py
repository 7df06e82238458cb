"""The contract of a checkpoint: what is read is what was saved, or nothing is read."""

from __future__ import annotations

import json
import os
import resource
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rollwise import checkpoint
from rollwise.errors import UserError
from tests.kills import differing

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
ARRAYS = st.sampled_from(["bool", "int8", "int32", "int64", "uint8", "float16", "float32", "float64"]).flatmap(
    lambda kind: arrays.arrays(np.dtype(kind), arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
KEYS = st.text(max_size=6).filter(lambda k: k != "__array__")
STATES = st.dictionaries(
    KEYS,
    st.recursive(
        SCALARS | ARRAYS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


def model(path: Path) -> None:
    path.mkdir()
    (path / "config.json").write_text("{}")


@settings(max_examples=60, deadline=None)
@given(STATES, st.integers(0, 10**9))
def test_what_is_read_is_what_was_saved(state: dict[str, Any], step: int) -> None:
    """Arrays bit for bit, NaN payloads and all; and reading changes nothing."""
    with tempfile.TemporaryDirectory() as name:
        saved = checkpoint.save(Path(name), step, state, model, keep=1)
        assert checkpoint.verify(saved) is None
        assert list(differing(checkpoint.load(saved), state)) == []
        again = checkpoint.save(Path(name), step + 1, checkpoint.load(saved), model, keep=2)
        assert (again / "state.json").read_bytes() == (saved / "state.json").read_bytes()
        assert (again / "arrays.safetensors").read_bytes() == (saved / "arrays.safetensors").read_bytes()


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_change_of_any_file_is_detected(data: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        saved = checkpoint.save(Path(name), 3, {"a": np.arange(9), "b": {"c": "text"}}, model, keep=1)
        file = data.draw(st.sampled_from(sorted(p for p in saved.rglob("*") if p.is_file())))
        before = file.read_bytes()
        at = data.draw(st.integers(0, len(before)))
        cut = data.draw(st.integers(0, 3))
        new = data.draw(st.binary(max_size=4))
        after = before[:at] + new + before[at + cut :]
        file.write_bytes(after)
        assert (checkpoint.verify(saved) is None) == (after == before)


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    """Neither as a further file nor under a name the manifest lists."""
    saved = checkpoint.save(tmp_path / "c", 1, {"a": np.arange(3)}, model, keep=1)
    ran = tmp_path / "ran"
    payload = b"cposix\nsystem\n(S'touch " + os.fsencode(ran) + b"'\ntR."
    (saved / "model" / "pytorch_model.bin").write_bytes(payload)
    with pytest.raises(UserError, match="files and manifest differ"):
        checkpoint.newest(tmp_path / "c")
    (saved / "model" / "pytorch_model.bin").unlink()
    (saved / "arrays.safetensors").write_bytes(payload)
    manifest = json.loads((saved / "manifest.json").read_text())
    entry = manifest["files"]["arrays.safetensors"]
    entry["bytes"], entry["sha256"] = len(payload), checkpoint._sha256(saved / "arrays.safetensors")
    (saved / "manifest.json").write_text(json.dumps(manifest, indent=1))
    path, _ = checkpoint.newest(tmp_path / "c")
    with pytest.raises(ValueError, match=r"[Hh]eader"):
        checkpoint.load(path)
    assert not ran.exists()


@pytest.mark.parametrize("header", [b"\xff" * 7 + b"\x0f", (2**40).to_bytes(8, "little"), b"\x02\0\0\0\0\0\0\0[]"])
def test_a_header_bomb_is_an_error_and_no_allocation(tmp_path: Path, header: bytes) -> None:
    saved = checkpoint.save(tmp_path, 1, {"a": np.arange(3)}, model, keep=1)
    (saved / "arrays.safetensors").write_bytes(header + b"{}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=r"[Hh]eader|[Ii]nvalid"):
        checkpoint.load(saved)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024
    assert checkpoint.verify(saved) is not None


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_that_cannot_be_written_is_an_oserror(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OSError):
        checkpoint.save(tmp_path / "c", 1, {}, model, keep=1)


def test_a_file_in_place_of_the_folder_is_an_oserror_and_stays(tmp_path: Path) -> None:
    """What a folder that cannot be written is to everyone, the superuser included."""
    (tmp_path / "c").write_text("mine")
    with pytest.raises(OSError):
        checkpoint.save(tmp_path / "c", 1, {}, model, keep=1)
    assert (tmp_path / "c").read_text() == "mine"


def test_a_link_in_place_of_a_checkpoint_is_refused(tmp_path: Path) -> None:
    saved = checkpoint.save(tmp_path / "real", 4, {"a": 1}, model, keep=1)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "step_4").symlink_to(saved)
    path, _ = checkpoint.newest(tmp_path / "c")
    assert checkpoint.load(path) == {"a": 1}, "a whole folder elsewhere is the user's own choice"
    (saved / "state.json").unlink()
    with pytest.raises(UserError, match="step_4 refused"):
        checkpoint.newest(tmp_path / "c")
