"""The rules of curation that look at one row alone. SRPO (arXiv 2504.14286) names them and gives neither thresholds nor
wordings: every heuristic here is ours. A rule is a pure function of an item: empty where the row may stay, else the
reason in a few words.

Patterns are searched in at most `LONGEST` characters and none nests quantifiers, so time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from rollwise.records import Prompt

LONGEST = 200_000  # characters of a question; a longer one is noise
FEWEST = 2  # letters or digits a question needs

Kind = Literal["math", "code"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What the rules look at: one row as it was read."""

    question: str
    gold: Any  # JSON; None where the row has none
    kind: Kind
    pictures: tuple[str, ...] = ()  # of the row, each by a name of its content
    solution: str = ""  # code: the reference program, where the row has one
    options: tuple[str, ...] = ()  # to choose from
    conflict: str = ""  # another column of the row that claims another gold
    prompt: Prompt | None = None  # for the verifier


Rule = Callable[[Item], str]

URL = re.compile(r"https?://|www\.\w", re.IGNORECASE)
MARKUP = re.compile(
    r"</?(?:p|br|div|span|b|i|u|em|strong|a|h[1-6]|ul|ol|li|table|tr|td|th|sub|sup|font|center|code|pre)"
    r"(?: [^<>]{0,200})?/?>|&(?:nbsp|lt|gt|amp|quot|times|minus|le|ge|#\d{1,6});",
    re.IGNORECASE,
)
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
MOJIBAKE = re.compile("\ufffd|â€[™œ\u009d\u201c\u201d\u2122]|Ã[©¨¤¶¼]|Â[°±·²³]")


def url(item: Item) -> str:
    """An address on the web in the question."""
    found = URL.search(item.question[:LONGEST])
    return f"an address at character {found.start()}" if found else ""


def noise(item: Item) -> str:
    """What formatting left behind: HTML tags or entities (but `<image>`), control characters, text decoded wrongly, or
    a question longer than 200,000 characters. In code, comparison signs and generics are text: tags do not count."""
    if len(item.question) > LONGEST:
        return f"over {LONGEST:,} characters"
    for pattern, what in ((CONTROL, "a control character"), (MOJIBAKE, "text decoded wrongly"), (MARKUP, "HTML")):
        found = pattern.search(item.question)
        if found and not (pattern is MARKUP and item.kind == "code"):
            return f"{what} at character {found.start()}"
    return ""


def missing(item: Item) -> str:
    """No question (fewer than 2 letters or digits) or no gold (null, empty, blank)."""
    if sum(c.isalnum() for c in item.question[:1000]) < FEWEST:
        return "no question"
    gold = item.gold
    if gold is None or (isinstance(gold, str) and not gold.strip()) or (isinstance(gold, list | dict) and not gold):
        return "no tests" if item.kind == "code" else "no gold answer"
    return ""


ASKING = re.compile(
    r"\b(?:find|determine|compute|calculate|evaluate|what|which|how|solve|express|simplify|give)\b|\?|？|求(?!证)|多少",
    re.IGNORECASE,
)


LETTERED = re.compile(r"(?:^|[\s:;.,])\(?([a-e]|i{1,3}|iv)\)\s")


def multi_part(item: Item) -> str:
    """Parts (a) and (b), or (i) and (ii), of which each asks something; or a gold that is lettered so. Lettered
    conditions ask nothing and may stay, and so may options, where the gold is a letter. Several values in one gold are
    not looked at: a pair can be one answer."""
    if isinstance(item.gold, str) and len(item.gold.strip(" ().")) == 1 and item.gold.strip(" ().").isalpha():
        return ""
    golds = item.gold if isinstance(item.gold, str) else ""
    for text, asks in ((item.question[:LONGEST], True), (golds[:LONGEST], False)):
        marks = list(LETTERED.finditer(text))
        ends = [*(m.start() for m in marks[1:]), len(text)][: len(marks)]
        parts = [
            m.group(1) for m, end in zip(marks, ends, strict=True) if not asks or ASKING.search(text, m.end(), end)
        ]
        for first, second in (("a", "b"), ("i", "ii")):
            if first in parts and second in parts[parts.index(first) :]:
                return f"parts ({first}) and ({second})"
    return ""


PROOF = re.compile(
    r"\bprove\b|\b(?:show|demonstrate|establish)(?: carefully| directly)? that\b|证明|求证", re.IGNORECASE
)


def proof(item: Item) -> str:
    """Asks to prove or show something, and for nothing else: no find, compute, what, how, no question mark."""
    text = item.question[:LONGEST]
    asked = PROOF.search(text)
    return f"asks to '{asked.group()}' and for no value" if asked and not ASKING.search(text) else ""


DRAWN = re.compile(r"!\[|<image\d{0,3}>|<img\b|\\includegraphics|\[asy\]|\\begin\{(?:asy|tikzpicture)\}", re.IGNORECASE)
SHOWN = re.compile(
    r"\b(?:as shown|shown (?:below|above|here|at (?:the )?(?:left|right))|in the (?:figure|diagram|picture|image)"
    r"|(?:the|this) (?:figure|diagram|picture|image|graph|chart) (?:below|above|shown|shows)"
    r"|(?:figure|diagram|picture|image|graph|chart) (?:below|above)|pictured)\b|如图|下图|上图|图中|图示",
    re.IGNORECASE,
)
TABLED = re.compile(
    r"\b(?:in|from|following|this) (?:the )?(?:following )?tables?\b|\btables? (?:below|above)\b|下表|表中",
    re.IGNORECASE,
)
TABLE = re.compile(r"\\begin\{(?:tabular|array)|\n *\|[^\n]*\|")


def picture(item: Item) -> str:
    """Needs an image or a table that the row does not hold: picture markup or drawing code in the text, words such as
    'as shown' or 'in the diagram', or a table spoken of and not written out. A row that carries images keeps them."""
    text = item.question[:LONGEST]
    if not item.pictures:
        for pattern in (DRAWN, SHOWN):
            found = pattern.search(text)
            if found:
                return f"needs a picture ('{found.group()}')"
    tabled = TABLED.search(text)
    return f"needs a table ('{tabled.group()}')" if tabled and not TABLE.search(text) else ""


ENVIRONMENT = re.compile(
    r"\b(?:docker|kubernetes|django|flask|tkinter|pygame|selenium|android|ios app|mysql|postgres(?:ql)?|sqlite"
    r"|mongodb|redis|aws|azure|windows registry|command prompt|powershell|sudo|apt-get|pip install|npm install|cuda"
    r"|environment variables?|gui)\b",
    re.IGNORECASE,
)
FILES = re.compile(
    r"\b(?:read|reads|load|loads|open|opens|write|writes|save|saves)(?: \w+){0,4} (?:from|to|into|in) (?:a|the|an)"
    r"(?: \w+)? (?:file|directory|folder)\b|\b(?:file|directory|folder) (?:path|name)s?\b|\bcsv file\b|\binput\.txt\b"
    r"|\boutput\.txt\b",
    re.IGNORECASE,
)
NETWORK = re.compile(
    r"\b(?:https? requests?|rest api|api endpoint|web ?page|web ?site|web server|socket|download|scrape|scraping|urllib"
    r"|tcp|udp|ftp|smtp)\b",
    re.IGNORECASE,
)
IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+([A-Za-z_][\w.]*)", re.MULTILINE)
OPENS = re.compile(r"(?<![\w.])open\(|\.(?:read|write)_(?:text|bytes)\(")
STANDARD_STREAM = re.compile(r"(?<![\w.])open\(0[,)]")
ON_NETWORK = {"socket", "requests", "urllib", "urllib2", "urllib3", "http", "httpx", "aiohttp", "ftplib", "smtplib"}
ON_FILES = {"shutil", "glob", "tempfile", "pathlib", "csv", "sqlite3"}
ON_SYSTEM = {"subprocess", "ctypes", "winreg", "tkinter", "pygame", "selenium", "django", "flask", "torch",
             "tensorflow", "cv2", "PIL", "matplotlib", "pymysql", "psycopg2"}  # fmt: skip


def _imported(item: Item, modules: set[str]) -> str:
    for found in IMPORT.finditer(item.solution[:LONGEST]):
        name = found.group(1).split(".")[0]
        if name in modules:
            return f"the reference program imports {name}"
    return ""


def _said(pattern: re.Pattern[str], item: Item) -> str:
    found = pattern.search(item.question[:LONGEST])
    return f"the question says '{found.group()}'" if found else ""


def environment(item: Item) -> str:
    """Code that depends on a system, a service or a package: named in the question, or imported by the reference."""
    return _said(ENVIRONMENT, item) or _imported(item, ON_SYSTEM)


def file_io(item: Item) -> str:
    """Code that reads or writes files: said in the question, or done by the reference program."""
    opened = OPENS.search(STANDARD_STREAM.sub("", item.solution[:LONGEST]))
    return _said(FILES, item) or _imported(item, ON_FILES) or ("the reference program opens a file" if opened else "")


def network(item: Item) -> str:
    """Code that needs the network: said in the question, or imported by the reference program."""
    return _said(NETWORK, item) or _imported(item, ON_NETWORK)


ALWAYS: dict[str, Rule] = {"url": url, "noise": noise, "missing": missing}
BY_KIND: dict[Kind, dict[str, Rule]] = {
    "math": {"multi_part": multi_part, "proof": proof, "picture": picture},
    "code": {"environment": environment, "file_io": file_io, "network": network},
}
"""By name, in the order they are asked; the first that speaks drops the row. Pictures count for mathematics only, as in
the paper."""

WHOLE = {
    "unreadable": "The row cannot be read: not an object, no question among its columns, or a form that is refused.",
    "reference": "The gold, said back in the words its own verifier reads, is not correct; or two columns hold other "
    "golds; code: the reference program fails its tests, where there is one.",
    "duplicate": "The question, without case, blanks and punctuation at the ends of words, is that of a row kept "
    "before, its options and pictures included.",
}
"""Rules that need more than the row: the reader, a verifier, the rows before."""


def first_broken(item: Item) -> tuple[str, str] | None:
    """The first rule that drops the item, and its reason."""
    for name, rule in {**ALWAYS, **BY_KIND[item.kind]}.items():
        reason = rule(item)
        if reason:
            return name, reason
    return None


def rule_names() -> list[str]:
    """All rules in the order they are asked."""
    return ["unreadable", *ALWAYS, *BY_KIND["math"], *BY_KIND["code"], "reference", "duplicate"]
