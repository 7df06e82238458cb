"""The rooms' order: a module imports only rooms to its left."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "rollwise"

# Left to right. Modules of one room may import each other; a room may import any room before it.
ROOMS = [
    "errors",
    "outputs",
    "seeds",
    "image",
    "state",
    "kinds",
    "records",
    "config",
    "advice",
    "holding",
    "curriculum",
    "allocation",
    "vision",
    "policy",
    "memory",
    "sampling",
    "jail",
    "verify",
    "data",
    "tasks",
    "starters",
    "audit",
    "lengths",
    "replay",
    "advantage",
    "objective",
    "learner",
    "ledger",
    "budget",
    "metrics",
    "reflection",
    "scores",
    "guard",
    "evaluate",
    "curate",
    "checkpoint",
    "events",
    "loop",
    "report",
    "console",
    "methods",
    "parts",
    "assemble",
    "folder",
    "run",
    "compare",
    "results",
    "backends",
    "cli",
    "__main__",
]
HEAVY_FREE = [
    "cli.main",
    "config",
    "records",
    "curriculum.make",
    "allocation.dynamic",
    "allocation.pilot",
    "replay.recent",
    "replay.hybrid",
    "replay.rollouts",
    "replay.success",
    "advantage",
    "ledger",
    "methods",
    "tasks",
    "data",
    "verify.scoring",
    "verify.code",
    "verify.table",
    "verify.mathematics",
    "verify.user",
    "report.page",
    "console",
    "events",
    "starters",
    "audit.lines",
    "cli.verifying",
    "cli.checking",
    "cli.curating",
    "curate.items",
    "backends.verl.mapping",
]


def room(module: str) -> str:
    return module.split(".")[0]


def imports(tree: ast.AST) -> set[str]:
    """Rooms a module imports, at any depth of its code."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "rollwise":
            rest = node.module.split(".")[1:]
            found |= {rest[0]} if rest else {a.name for a in node.names if a.name != "__version__"}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("rollwise.")}
    return found


def violations(rooms: dict[str, set[str]], order: list[str]) -> list[str]:
    rank = {name: i for i, name in enumerate(order)}
    return [f"{a} imports {b}" for a, wanted in sorted(rooms.items()) for b in sorted(wanted) if rank[b] > rank[a]]


def walk() -> dict[str, set[str]]:
    out: dict[str, set[str]] = {}
    for path in SRC.rglob("*.py"):
        parts = path.relative_to(SRC).with_suffix("").parts
        if parts == ("__init__",):
            continue
        out.setdefault(parts[0], set()).update(imports(ast.parse(path.read_text())))
    return out


def test_every_room_has_its_place() -> None:
    assert set(walk()) == set(ROOMS)


def test_imports_flow_left_to_right() -> None:
    assert violations(walk(), ROOMS) == []


def test_a_violation_would_be_seen() -> None:
    rooms = {"replay": imports(ast.parse("def f():\n    from rollwise.loop import Loop")), "loop": set()}
    assert violations(rooms, ["replay", "loop"]) == ["replay imports loop"]


def test_only_the_table_knows_methods() -> None:
    knowing = {name for name, wanted in walk().items() if "methods" in wanted}
    assert knowing <= {"methods", "assemble", "cli", "compare"}


def test_the_loop_names_no_method() -> None:
    from rollwise.methods import method_names

    words = set(re.findall(r"[a-z+-]+", (SRC / "loop.py").read_text().lower()))
    assert [m for m in method_names() if m in words] == []


@pytest.mark.parametrize("module", HEAVY_FREE)
def test_light_modules_import_no_torch(module: str) -> None:
    code = f"import sys, rollwise.{module}; print([m for m in ('torch', 'transformers') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_no_file_is_a_dumping_ground() -> None:
    files = list(SRC.rglob("*.py"))
    assert not [f for f in files if "utils" in f.name]
    assert not [f.name for f in files if len(f.read_text().splitlines()) > 420]
