"""YAML as settings have it: PyYAML's safe loader, a key once, and no text that grows beyond what settings are."""

from __future__ import annotations

from typing import Any

from rollwise.errors import show

MAX_BYTES = 2**20
MAX_VALUES = 100_000  # in all, what aliases stand for counted wherever they stand


class NotSettings(Exception):
    """What is wrong with a text, with its line where there is one."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.at = f" line {line}" if line else ""


def parse(text: str) -> Any:
    """The value of a YAML text. Raises NotSettings."""
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            seen: set[str] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if key.value in seen:
                        raise NotSettings(f"{show(key.value)} stands there twice", key.start_mark.line + 1)
                    seen.add(key.value)
            return node

    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise NotSettings(f"more than {MAX_BYTES:,} bytes")
    try:
        loader = Loader(text)
        value = loader.get_single_data()
        loader.dispose()
    except NotSettings:
        raise
    except Exception as error:  # a tag such as !!int on text that is none raises whatever its constructor does
        where = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "unreadable"
        raise NotSettings(problem, where.line + 1 if where else None) from None
    _check_size(value)
    return value


def _check_size(value: Any) -> None:
    """Aliases make a small text a large tree, or one without end."""
    left, waiting = MAX_VALUES, [value]
    while waiting:
        one = waiting.pop()
        inner = [*one, *one.values()] if isinstance(one, dict) else one if isinstance(one, list | tuple | set) else ()
        left -= 1 + len(inner)
        if left < 0:
            raise NotSettings(f"more than {MAX_VALUES:,} values")
        waiting.extend(inner)
