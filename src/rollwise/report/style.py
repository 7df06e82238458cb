"""The page's style sheet: light and dark by the reader's own setting, no fonts or files from outside."""

LIGHT = ("#1f6fb4", "#c2500f", "#23804f", "#8447b0", "#94700f", "#bd3468", "#52616f", "#0b7d86")
DARK = ("#6db3f2", "#f59a5c", "#66c795", "#c39bea", "#dbb95a", "#f08bb0", "#a9b7c4", "#5ccad3")


def _colours(values: tuple[str, ...]) -> str:
    return " ".join(f"--c{i}:{value};" for i, value in enumerate(values))


_CLASSES = "\n".join(f".c{i} {{ --c: var(--c{i}); }}" for i in range(len(LIGHT)))

SHEET = f"""
:root {{ color-scheme: light dark; --ink:#1b2127; --soft:#59646f; --rule:#d9dee3; --page:#ffffff; --card:#f6f8f9;
  {_colours(LIGHT)} }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink:#e5e9ed; --soft:#9eaab5; --rule:#38424b; --page:#14181c; --card:#1c2228; {_colours(DARK)} }}
}}
* {{ box-sizing: border-box; }}
body {{ margin: 0 auto; max-width: 1180px; padding: 28px 22px 60px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }}
h1 {{ font-size: 25px; margin: 0 0 2px; line-height: 1.25; }}
h2 {{ font-size: 18px; margin: 40px 0 10px; padding-top: 14px; border-top: 1px solid var(--rule); }}
h3 {{ font-size: 15px; margin: 22px 0 6px; }}
p {{ margin: 6px 0; max-width: 78ch; }}
.lead, .note, figcaption {{ color: var(--soft); }}
.note, figcaption {{ font-size: 13px; }}
.row {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 430px), 1fr)); gap: 18px 22px; }}
.row > figure:only-child {{ max-width: 760px; }}
figure {{ margin: 8px 0 0; min-width: 0; }}
figure h3 {{ margin: 0 0 4px; }}
figure > svg {{ display: block; width: 100%; height: auto; }}
svg text {{ fill: var(--soft); font: 11.5px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }}
svg text.t {{ fill: var(--ink); font-size: 12px; }}
.g {{ stroke: var(--rule); stroke-width: 1; }}
.x {{ stroke: var(--soft); stroke-width: 1; }}
.l {{ fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }}
.p, .a {{ fill: var(--c); }}
.a {{ fill-opacity: .82; stroke: var(--page); stroke-width: .6; }}
.b {{ fill: var(--c); fill-opacity: .15; }}
{_CLASSES}
ul.legend {{ list-style: none; display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 2px 0 4px; padding: 0;
  font-size: 13px; }}
ul.legend li {{ overflow-wrap: anywhere; }}
.sw {{ width: 26px; height: 10px; margin-right: 6px; vertical-align: baseline; }}
.table {{ overflow-x: auto; margin: 12px 0 4px; }}
table {{ border-collapse: collapse; font-size: 13.5px; font-variant-numeric: tabular-nums; }}
caption {{ text-align: left; font-weight: 600; padding-bottom: 5px; }}
th, td {{ padding: 4px 12px 4px 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--rule); }}
td {{ overflow-wrap: break-word; max-width: 46ch; }}
th {{ font-weight: 600; color: var(--soft); vertical-align: bottom; }}
th.n, td.n {{ text-align: right; padding-left: 10px; }}
td.n {{ white-space: nowrap; }}
td:first-child {{ min-width: 10ch; }}
details {{ margin: 10px 0; }}
summary {{ cursor: pointer; font-weight: 600; }}
.group {{ background: var(--card); border-radius: 8px; padding: 10px 14px; margin: 10px 0; }}
pre {{ margin: 4px 0 10px; white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate;
  font: 13px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }}
@media print {{ details > * {{ display: block; }} .row > figure {{ break-inside: avoid; }} }}
"""
