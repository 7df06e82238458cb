"""A run that is stopped at once says how to go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollwise import run
from rollwise.cli.main import main


@pytest.mark.parametrize("begun", [True, False])
def test_a_second_ctrl_c_names_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], begun: bool
) -> None:
    folder = tmp_path / "run"

    def start(config: Any, display: Any) -> None:
        if begun:
            folder.mkdir()
            (folder / "config.yaml").write_text("")
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "start", start)
    assert main(["train", "--output", str(folder), "--quiet"]) == 130
    shown = capsys.readouterr().err.splitlines()
    way = [f"go on with: rollwise resume {folder}"] if begun else []
    assert shown == [*way, "rollwise: interrupted"]


def test_a_resumed_run_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text("budget: {steps: 1}")

    def resume(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "resume", resume)
    assert main(["resume", str(tmp_path), "--quiet"]) == 130
    assert f"go on with: rollwise resume {tmp_path}\n" in capsys.readouterr().err
