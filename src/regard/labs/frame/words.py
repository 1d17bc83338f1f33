"""Words of the frame in both languages."""

from __future__ import annotations

from regard.labs.frame.values import Text

VERDICTS = {
    "holds": Text(en="holds", zh="成立"),
    "holds_with_limits": Text(en="holds, with limits", zh="在限定范围内成立"),
    "not_as_written": Text(en="not as written", zh="与原文不符"),
    "inconclusive": Text(en="inconclusive", zh="无法判定"),
}
SENTENCES = {
    "holds": Text(en="Everything the quote needs was measured so.", zh="原文所需要的每一点都测到了。"),
    "holds_with_limits": Text(
        en="Everything the quote needs was measured so, and there are places where it stops being true.",
        zh="原文所需要的每一点都测到了，同时也找到了它不再成立的地方。",
    ),
    "not_as_written": Text(
        en="What is written is not what was measured: see the claims that failed.", zh="测量结果与原文不同：见未通过的断言。"
    ),
    "inconclusive": Text(
        en="The control did not behave the other way, so nothing was shown.",
        zh="对照组没有表现出相反的结果，因此什么也没有证明。",
    ),
}
ROLES = {
    "claim": Text(en="claim", zh="断言"),
    "control": Text(en="control", zh="对照"),
    "limit": Text(en="limit", zh="界限"),
    "note": Text(en="note", zh="附注"),
}
FRAME = {
    "claims": Text(en="What is claimed", zh="原文的说法"),
    "vary": Text(en="varied", zh="变化的量"),
    "fixed": Text(en="fixed", zh="固定的量"),
    "measured": Text(en="measured", zh="测量的量"),
    "control": Text(en="control", zh="对照"),
    "design": Text(en="Design", zh="实验设计"),
    "checks": Text(en="Checks", zh="检验"),
    "verdict": Text(en="Verdict", zh="结论"),
    "expected": Text(en="documented", zh="文档中的结论"),
    "limits": Text(en="Limits and notes", zh="界限与附注"),
    "numbers": Text(en="Numbers", zh="数据"),
    "passed": Text(en="passed", zh="通过"),
    "failed": Text(en="failed", zh="未通过"),
    "expected_so": Text(en="as expected", zh="符合预期"),
    "otherwise": Text(en="otherwise", zh="不符合预期"),
    "found": Text(en="found", zh="发现"),
    "not_found": Text(en="not found", zh="未发现"),
    "sabotaged": Text(en="Sabotaged on purpose", zh="有意破坏"),
    "caught": Text(en="caught", zh="已被发现"),
    "missed": Text(en="NOT caught", zh="未被发现"),
    "contents": Text(en="Labs", zh="实验"),
    "value": Text(en="value", zh="测得值"),
    "threshold": Text(en="threshold", zh="阈值"),
    "origin": Text(en="where the threshold comes from", zh="阈值的来由"),
    "environment": Text(en="Made with", zh="运行环境"),
    "seconds": Text(en="seconds", zh="秒"),
    "title": Text(en="The attention notes, measured", zh="测量注意力讲义"),
    "again": Text(en="Again", zh="重新运行"),
    "waiting": Text(en="Nothing was measured yet.", zh="尚未测量。"),
}


def says(result_of_check: bool, role: str) -> Text:
    """Passed or failed; of a limit, found or not; of a note, as expected or otherwise."""
    if role == "note":
        return FRAME["expected_so" if result_of_check else "otherwise"]
    if role == "limit":
        return FRAME["found" if result_of_check else "not_found"]
    return FRAME["passed" if result_of_check else "failed"]
