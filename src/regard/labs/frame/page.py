"""Results as one HTML file that opens without a network: both languages, pictures inside, no script."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

from regard.labs.frame.picture import pictures
from regard.labs.frame.table import shown
from regard.labs.frame.values import Check, Quote, Result, Text
from regard.labs.frame.words import FRAME, ROLES, SENTENCES, VERDICTS, says

STYLE = """
:root { color-scheme: light dark; --line: #8886; --good: #1a7f37; --bad: #b42318; }
@media (prefers-color-scheme: dark) { :root { --good: #56d364; --bad: #ff8a80; } }
body { font: 16px/1.55 system-ui, "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif;
  max-width: 62rem; margin: 0 auto; padding: 1rem; }
h1, h2, h3 { line-height: 1.25; } h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
table { border-collapse: collapse; font-size: .9rem; } th, td { border-bottom: 1px solid var(--line);
  padding: .25rem .6rem; text-align: left; vertical-align: top; } td.n { text-align: right;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.wide { overflow-x: auto; } blockquote { margin: .6rem 0; padding-left: 1rem; border-left: 3px solid var(--line); }
figure { margin: 1rem 0; } img { max-width: 100%; background: #fff; border-radius: 4px; }
.good { color: var(--good); } .bad { color: var(--bad); } .verdict { font-size: 1.15rem; }
[lang=zh] + br { display: none; } fieldset { border: 1px solid var(--line); width: fit-content; }
span.en::after { content: " "; }
body:has(#en:checked) .zh, body:has(#zh:checked) .en { display: none; }
"""
SWITCH = (
    '<fieldset><legend lang="en">Language · 语言</legend>'
    '<label><input type="radio" name="l" id="en"> English</label> '
    '<label lang="zh"><input type="radio" name="l" id="zh"> 中文</label> '
    '<label><input type="radio" name="l" id="both" checked> English + 中文</label></fieldset>'
)
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def both(text: Text | Quote) -> str:
    """A text in both languages, of which the reader may choose one."""
    if text.en == text.zh:
        return escape(text.en)
    return f'<span class="en" lang="en">{escape(text.en)}</span><span class="zh" lang="zh">{escape(text.zh)}</span>'


def page(results: Sequence[Result]) -> str:
    """The whole page."""
    contents = "".join(_entry(result) for result in results)
    head = "".join(f"<th>{both(FRAME[key]) if key else ''}</th>" for key in ("", "contents", "verdict", "", "seconds"))
    title = FRAME["title"]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title.en)} · {escape(title.zh)}</title><style>{STYLE}</style></head>\n<body>\n"
        f'{SWITCH}\n<h1>{both(title)}</h1>\n<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{contents}</tbody></table></div>\n"
        + "\n".join(section(result) for result in results)
        + "\n</body></html>\n"
    )


def _entry(result: Result) -> str:
    return (
        f'<tr><td>L{result.number}</td><td><a href="#{result.lab}">{result.lab}</a>: {both(result.title)}</td>'
        f"<td>{both(VERDICTS[result.verdict])}</td><td>{_judged(result)}</td>"
        f'<td class="n">{result.seconds:.1f}</td></tr>'
    )


def _judged(result: Result) -> str:
    """Whether the verdict is the documented one; under sabotage, whether it was caught."""
    mark = "good" if result.as_documented else "bad"
    if result.sabotage is not None:
        return f'<span class="{mark}">{both(FRAME["caught" if result.as_documented else "missed"])}</span>'
    sign = "✓" if result.as_documented else "✗"
    return f'<span class="{mark}">{sign}</span> {both(FRAME["expected"])}: {both(VERDICTS[result.expected])}'


def section(result: Result) -> str:
    """One lab: quotes, design, picture, numbers, checks, verdict."""
    svg = base64.b64encode(pictures(result)[0]).decode("ascii")
    alt = escape(f"{result.finding.en} {result.finding.zh}", quote=True)
    parts = [f'<h2 id="{escape(result.lab)}">L{result.number} {escape(result.lab)}: {both(result.title)}</h2>']
    if result.sabotage is not None:
        parts.append(f'<p class="bad">{both(FRAME["sabotaged"])}: {both(result.sabotage)}</p>')
    parts.append(
        f'<p class="verdict"><strong>{both(FRAME["verdict"])}: {both(VERDICTS[result.verdict])}.</strong> '
        f"{both(SENTENCES[result.verdict] if result.checks else FRAME['waiting'])} "
        f"{_judged(result)}</p><p>{both(result.finding)}</p>"
    )
    parts.append(f"<h3>{both(FRAME['claims'])}</h3>{_quotes(result)}")
    parts.append(f"<h3>{both(FRAME['design'])}</h3><ul>{_design(result)}</ul>")
    if result.plots:
        parts.append(f'<figure><img alt="{alt}" src="data:image/svg+xml;base64,{svg}"></figure>')
    parts += [f"<h3>{both(FRAME['checks'])}</h3>", _checks(result), f"<h3>{both(FRAME['numbers'])}</h3>", _numbers(result)]
    if result.limits:
        told = "".join(f"<li>{both(text)}</li>" for text in result.limits)
        parts.append(f"<h3>{both(FRAME['limits'])}</h3><ul>{told}</ul>")
    made = ", ".join(f"{key} {value}" for key, value in (result.environment | result.settings).items())
    command = f"regard lab {result.lab}" + (" --break" if result.sabotage is not None else "")
    parts.append(
        f"<p>{both(FRAME['again'])}: <code>{escape(command)}</code>. {both(FRAME['environment'])}: {escape(made)}</p>"
    )
    return f"<section>{''.join(parts)}</section>"


def _quotes(result: Result) -> str:
    told = []
    for quote, verdict in zip(result.quotes, result.quote_verdicts, strict=True):
        where = escape(f"{quote.note}, {quote.section}")
        told.append(
            f'<blockquote><span lang="zh">「{escape(quote.zh)}」</span> <span class="en" lang="en">{escape(quote.en)}</span>'
            f"<br><small>{where} · {both(VERDICTS[verdict])}</small></blockquote>"
        )
    return "".join(told)


def _design(result: Result) -> str:
    keys = ("vary", "fixed", "measured", "control")
    return "".join(f"<li>{both(FRAME[key])}: {both(getattr(result.design, key))}</li>" for key in keys)


def _checks(result: Result) -> str:
    head = "".join(
        f"<th>{both(FRAME[key]) if key else ''}</th>" for key in ("", "checks", "value", "threshold", "", "origin")
    )
    body = "".join(_check(one) for one in result.checks)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _check(one: Check) -> str:
    mark = "good" if one.passed else "" if one.role in ("limit", "note") else "bad"
    about = "".join(f" [{number}]" for number in one.quotes)
    return (
        f"<tr><td>{both(ROLES[one.role])}{about}</td><td>{both(one.what)}</td>"
        f'<td class="n">{shown(one.value)}</td><td class="n">{escape(one.operator)} {shown(one.threshold)}</td>'
        f'<td class="{mark}">{both(says(one.passed, one.role))}</td><td>{both(one.origin)}</td></tr>'
    )


def _numbers(result: Result) -> str:
    head = "".join(f"<th>{both(column.title)}</th>" for column in result.columns)
    body = []
    for row in result.rows:
        cells = []
        for column in result.columns:
            value = row.get(column.key)
            text = both(value) if isinstance(value, Text) else escape(shown(value))
            cells.append(f'<td class="n">{text}</td>' if isinstance(value, (int, float)) else f"<td>{text}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
