"""Settings as nested mappings: from files and overrides, laid over each other, and back to text."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rollwise.config.aliases import ALIASES, ANSWERS, WIDE, translated
from rollwise.config.schema import RunConfig
from rollwise.config.yaml_text import MAX_BYTES, NotSettings, parse
from rollwise.errors import UserError, nearest

SHORT = {"reward": "function"}  # sections that may be given as the text of one of their keys
WHOLE = ("task_args", "verl")  # mappings that are one setting, whatever they hold

TASKS_EXAMPLE = "{gsm8k: {args: {data: train.jsonl}}, chain_sum: {weight: 2}}"

Tree = dict[str, Any]


def read_yaml(path: Path) -> Tree:
    """A recipe file as a nested mapping."""
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise UserError(f"{path}: is no file; give a YAML file")
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({_reason(error)}); give a YAML file") from None
    try:
        data = parse(text)
    except NotSettings as error:
        raise UserError(f"{path}{error.at}: not valid YAML ({error})") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise UserError(f"{path}: holds a {type(data).__name__}; a recipe is a mapping of keys to values")
    return data


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def parse_override(text: str) -> Tree:
    """`a.b=c` as a nested mapping; the value is read as YAML."""
    name, sep, value = text.partition("=")
    if not sep or not name.strip():
        raise UserError(f"--set {text}: give it as key=value, for example --set learner.lr=1e-5")
    try:
        parsed = parse(value)
    except NotSettings:
        raise UserError(f"--set {text}: the value is not valid YAML") from None
    return nest(name.strip(), parsed, "--set")


def nest(dotted: str, value: Any, source: str = "config") -> Tree:
    """`nest('a.b', 1)` is `{'a': {'b': 1}}`; aliases are translated."""
    if dotted in SHORT and isinstance(value, str):
        value = {SHORT[dotted]: value}
    out: Tree = {}
    for name, ours in translated(dotted, value, source).items():
        tree: Any = ours
        for part in reversed(name.split(".")):
            tree = {part: tree}
        out = merge(out, tree)
    return out


def merge(base: Tree, over: Tree) -> Tree:
    """`over` laid on `base`, mapping by mapping; neither is changed."""
    out = dict(base)
    for name, value in over.items():
        here = out.get(name)
        out[name] = merge(here, value) if isinstance(here, dict) and isinstance(value, dict) else value
    return out


def expand_aliases(tree: Tree, source: str) -> Tree:
    """Synonyms and dotted keys of a file turned into our nested keys. A key given under two names is an error, but for
    one that bounds both sides of the clip (`epsilon`) beside one that bounds one of them, which narrows it."""
    known = {f.name for f in dataclasses.fields(RunConfig)}
    entries: Tree = {}
    for name, value in tree.items():
        if not isinstance(name, str):
            raise UserError(f"{source}: key {name!r} is not text; {nearest(str(name), known)}")
        if name == "tasks" and isinstance(value, list):
            raise UserError(f"{source}: tasks is a list; it is a mapping of names, for example {TASKS_EXAMPLE}")
        if name == "tasks" and isinstance(value, dict):  # a number is the weight, as in a stage
            value = {k: _data_set(k, v, source) for k, v in value.items()}
        entries |= _foreign(name, value, known, source) or {name: value}
    out: Tree = {}
    given: Tree = {}
    for name, value in entries.items():
        translate = name in ALIASES or name in ANSWERS or name in SHORT or "." in name
        nested = nest(name, value, source) if translate else {name: value}
        wide = name in WIDE
        clash = _first_clash(out if wide else given, nested)
        if clash:
            raise UserError(f"{source}: '{clash}' is given twice; keep one of the two")
        out, given = (merge(out, nested), given) if wide else (out, merge(given, nested))
    out = merge(out, given)
    if isinstance(out.get("verl"), dict):  # nested or dotted, the same
        out["verl"] = leaves(out["verl"])
    return out


def _data_set(name: Any, value: Any, source: str) -> Any:
    """An entry of `tasks`: a number is its weight, nothing its defaults, and `task_args` another name of `args`."""
    if _is_number(value):
        return {"weight": value}
    if isinstance(value, dict) and "task_args" in value:
        if "args" in value:
            raise UserError(f"{source}: 'tasks.{name}.args' is given twice, also as task_args; keep one of the two")
        return {("args" if k == "task_args" else k): v for k, v in value.items()}
    return {} if value is None else value


def _is_number(value: Any) -> bool:
    """Also of text such as 1e-5, which YAML 1.1 takes for none."""
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        return not isinstance(value, bool) and math.isfinite(float(value))
    return False


def _foreign(name: str, value: Any, known: Collection[str], source: str) -> Tree:
    """The settings of a section of another trainer by their dotted names; nothing where it is none."""
    if not isinstance(value, dict) or name in known:
        return {}
    found = leaves({name: value})
    names = [*ALIASES, *ANSWERS]
    if not any(alias.startswith(f"{name}.") for alias in names):
        return {}
    for dotted in found:
        if dotted not in names:
            raise UserError(f"{source}: unknown key '{dotted}'; {nearest(dotted, names)}")
    return found


def _first_clash(a: Tree, b: Tree, prefix: str = "") -> str | None:
    for name in [n for n in a if n in b]:
        if isinstance(a[name], dict) and isinstance(b[name], dict):
            found = _first_clash(a[name], b[name], f"{prefix}{name}.")
            if found:
                return found
        else:
            return f"{prefix}{name}"
    return None


def to_tree(config: RunConfig) -> Tree:
    """The config as a nested mapping, every key present. `build(to_tree(c)) == c`."""
    return dataclasses.asdict(config)


def dump_yaml(config: RunConfig) -> str:
    import yaml

    return yaml.safe_dump(to_tree(config), sort_keys=False, allow_unicode=True)


def leaves(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{'a': {'b': 1}}` as `{'a.b': 1}`."""
    out: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping) and value and name not in WHOLE:
            out.update(leaves(value, f"{prefix}{name}."))
        else:
            out[f"{prefix}{name}"] = value
    return out
