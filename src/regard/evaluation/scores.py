"""Scores of translations against their references, each with the signature that makes it comparable.

BLEU, chrF, chrF++ and TER are sacrebleu's, on detokenised text. The error rates and exact match are counted here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from regard.errors import UserError
from regard.evaluation.edits import nearest

log = logging.getLogger("regard.evaluation")

References = Sequence[Sequence[str | None]]
"""One list a reference set, as long as the hypotheses; None where a sentence has no further reference."""


@dataclass(frozen=True)
class Score:
    """value: in percent (0-100), but perplexity and loss as they are. signature: how it was computed. extra: its parts."""

    value: float
    signature: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Scoring:
    """How to score. language: the target's code, chooses the tokenizer of BLEU (`zh` for Chinese, `ja-mecab`, `ko-mecab`,
    else `13a`). tokenize: that tokenizer, named (none, 13a, intl, char, zh, flores200 …). lowercase: compare without
    case. allow_empty: score empty references, with a warning, instead of refusing them."""

    language: str | None = None
    tokenize: str | None = None
    lowercase: bool = False
    allow_empty: bool = False


CHINESE = {"zh", "zho", "chi", "cmn", "yue", "chinese"}
OWN_TOKENIZER = {"ja": "ja-mecab", "jpn": "ja-mecab", "ko": "ko-mecab", "kor": "ko-mecab"}


def tokenizer_of(options: Scoring) -> str:
    """The name of BLEU's tokenizer that these options ask for."""
    if options.tokenize:
        return options.tokenize
    language = (options.language or "").lower().replace("_", "-").split("-")[0]
    return "zh" if language in CHINESE else OWN_TOKENIZER.get(language, "13a")


def _bleu(options: Scoring) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    name = tokenizer_of(options)
    if name not in BLEU.TOKENIZERS:
        raise UserError(f"unknown tokenizer {name!r}: choose one of {', '.join(BLEU.TOKENIZERS)}")
    try:
        # force: text split by hand is only a mistake where sacrebleu is to split it itself
        return BLEU(lowercase=options.lowercase, tokenize=name, force=name == "none")
    except (ImportError, RuntimeError, OSError) as error:
        reason = str(error).strip().split("\n")[0]
        raise UserError(f"the tokenizer {name!r} cannot be used here ({reason}); choose another with tokenize=") from error


def _chrf(word_order: int) -> Callable[[Scoring], Any]:
    def make(options: Scoring) -> Any:
        from sacrebleu.metrics.chrf import CHRF

        return CHRF(word_order=word_order, lowercase=options.lowercase)

    return make


def _ter(options: Scoring) -> Any:
    from sacrebleu.metrics.ter import TER

    return TER(case_sensitive=not options.lowercase)


SACREBLEU: dict[str, Callable[[Scoring], Any]] = {"bleu": _bleu, "chrf": _chrf(0), "chrf++": _chrf(2), "ter": _ter}
"""The metrics that sacrebleu computes: name -> a sacrebleu metric for these options."""


Part = tuple[float, float]
"""What a text adds to the two sums whose quotient is the score."""


@dataclass(frozen=True)
class Counted:
    """A metric that is a quotient of sums over the texts. parts: of each text beside its references, of which there may be
    several. names: of the sums, where they are told."""

    parts: Callable[[Sequence[str], list[list[str]]], list[Part]]
    signature: str
    names: tuple[str, str] | None = None


def _rate(unit: str, split: Callable[[str], Sequence[str]]) -> Counted:
    def parts(hypotheses: Sequence[str], references: list[list[str]]) -> list[Part]:
        return [nearest(split(text), [split(r) for r in allowed]) for text, allowed in zip(hypotheses, references)]

    return Counted(parts, f"unit:{unit}|ref:nearest", ("edits", "reference_length"))


def _equal(first_only: bool, wrong: bool) -> Counted:
    def parts(hypotheses: Sequence[str], references: list[list[str]]) -> list[Part]:
        hits = [
            text.strip() in {r.strip() for r in allowed[: 1 if first_only else None]}
            for text, allowed in zip(hypotheses, references)
        ]
        return [(int(hit != wrong), 1) for hit in hits]

    return Counted(parts, f"ref:{'first' if first_only else 'any'}", ("wrong" if wrong else "right", "entries"))


def _rouge(kind: str) -> Counted:
    def parts(hypotheses: Sequence[str], references: list[list[str]]) -> list[Part]:
        try:
            from rouge_score.rouge_scorer import RougeScorer
        except ImportError:
            raise UserError("ROUGE needs rouge-score: pip install 'regard[rouge]'") from None
        scorer = RougeScorer([kind], use_stemmer=True)
        return [
            (max(scorer.score(reference, text)[kind].fmeasure for reference in allowed), 1)
            for text, allowed in zip(hypotheses, references)
        ]

    return Counted(parts, "rouge-score:F1|stemmer:yes|ref:best")


COUNTED: dict[str, Counted] = {
    "exact_match": _equal(first_only=False, wrong=False),
    "word_error": _equal(first_only=False, wrong=True),
    "word_error_first": _equal(first_only=True, wrong=True),
    "wer": _rate("words", str.split),
    "per": _rate("phonemes", str.split),
    "cer": _rate("characters", lambda text: text.strip()),
    "rouge1": _rouge("rouge1"),
    "rouge2": _rouge("rouge2"),
    "rougel": _rouge("rougeL"),
}
"""The metrics counted here, and ROUGE (Lin 2004) as google's rouge-score computes it, of whole texts. wer, per, cer: edits
over words, phonemes (between blanks), characters, divided by the length of the nearest reference. exact_match, word_error:
share of entries that equal, or do not equal, any allowed reference; word_error_first: that do not equal the first one (no
credit for variants)."""

METRICS = (*SACREBLEU, *COUNTED)
"""Names of all metrics that need only hypotheses and references."""

LOWER_IS_BETTER = {"ter", "wer", "per", "cer", "word_error", "word_error_first", "perplexity", "loss"}


def check_metrics(metrics: Iterable[str], known: Sequence[str] = METRICS) -> list[str]:
    """The names in order, without repeats; UserError for an unknown one."""
    names = list(dict.fromkeys(name.strip().lower().replace("-", "_") for name in metrics if name.strip()))
    for name in names:
        if name not in known:
            raise UserError(f"unknown metric {name!r}: choose among {', '.join(known)}")
    if not names:
        raise UserError(f"no metric named: choose among {', '.join(known)}")
    return names


def check_references(references: References, count: int | None = None, allow_empty: bool = False) -> list[list[str | None]]:
    """The reference sets ready for sacrebleu: a blank line of one set is None where another set has a reference.

    count: how many sentences there must be (None: as many as the first set has). Raises UserError for sets of unequal
    length, for none at all, and, naming the line, for a sentence whose references are all empty unless `allow_empty`.
    Call it before translating: nothing is lost then.
    """
    if not references or any(isinstance(lines, str) for lines in references):
        raise UserError("references must be one list of lines a reference set")
    count = len(references[0]) if count is None else count
    for number, lines in enumerate(references, 1):
        if len(lines) != count:
            name = "references" if len(references) == 1 else f"reference set {number}"
            raise UserError(f"{count} sentences to score but {len(lines)} lines in {name}: they must be equal")
    if count == 0:
        raise UserError("nothing to score: there are no sentences")
    sets: list[list[str | None]] = [[r if r and r.strip() else None for r in lines] for lines in references]
    empty = [i for i, allowed in enumerate(zip(*sets)) if all(r is None for r in allowed)]
    if empty and not allow_empty:
        more = f" (and {len(empty) - 1} more)" if len(empty) > 1 else ""
        raise UserError(
            f"line {empty[0] + 1} of the references is empty{more}: fill it, drop the pair, or allow empty references"
        )
    for i in empty:
        sets[0][i] = ""
    return sets


def score(
    hypotheses: Sequence[str],
    references: References,
    metrics: Sequence[str] = ("bleu", "chrf"),
    language: str | None = None,
    tokenize: str | None = None,
    options: Scoring | None = None,
) -> dict[str, Score]:
    """Score hypotheses against one reference set or more; sets may be shorter by None or blank lines.

    language and tokenize override those of `options`. Returns a Score a metric, in the order asked for. UserError: unequal
    counts, empty references, an unknown metric or tokenizer.
    """
    options = options or Scoring()
    options = replace(options, language=language or options.language, tokenize=tokenize or options.tokenize)
    names = check_metrics(metrics)
    sets = check_references(references, len(hypotheses), options.allow_empty)
    allowed = [[r for r in row if r is not None] for row in zip(*sets)]
    empty = sum(row == [""] for row in allowed)
    if empty:
        log.warning("%d of %d references are empty; they are scored as empty text", empty, len(allowed))
    return {name: _one(name, hypotheses, sets, allowed, options) for name in names}


def _one(
    name: str, hypotheses: Sequence[str], sets: list[list[str | None]], allowed: list[list[str]], options: Scoring
) -> Score:
    if name in SACREBLEU:
        metric = SACREBLEU[name](options)
        result = metric.corpus_score(list(hypotheses), sets)
        return Score(float(result.score), str(metric.get_signature()), _parts(result))
    parts, signature = counted(name, hypotheses, allowed, options)
    over, under = (sum(column) for column in zip(*parts, strict=True)) if parts else (0, 0)
    value = 100 * over / under if under else 100.0 * (over > 0)
    return Score(value, signature, dict(zip(COUNTED[name].names or (), (over, under))))


def counted(name: str, texts: Sequence[str], allowed: list[list[str]], options: Scoring) -> tuple[list[Part], str]:
    """What each text adds to a metric of COUNTED, beside its allowed references, and the metric's signature."""
    if options.lowercase:
        texts, allowed = [text.lower() for text in texts], [[r.lower() for r in row] for row in allowed]
    counts = {len(row) for row in allowed}
    signature = f"nrefs:{counts.pop() if len(counts) == 1 else 'var'}|case:{'lc' if options.lowercase else 'mixed'}"
    its = COUNTED[name]
    return its.parts(texts, allowed), f"{signature}|{its.signature}"


def _parts(result: Any) -> dict[str, Any]:
    names = ("precisions", "bp", "ratio", "sys_len", "ref_len", "num_edits", "ref_length")
    values = {name: getattr(result, name) for name in names if hasattr(result, name)}
    return {name: [float(v) for v in value] if isinstance(value, list) else value for name, value in values.items()}


def group_references(pairs: Iterable[Any]) -> tuple[list[str], list[list[str | None]]]:
    """Distinct sources in order of appearance, and reference sets with all their distinct translations.

    pairs: objects with `source` and `target` (regard.text.corpus.Pair), or (source, target) tuples. Sources with fewer
    translations than the most have None in the later sets, which sacrebleu takes as no further reference.
    """
    groups: dict[str, dict[str, None]] = {}
    for pair in pairs:
        source, target = pair if isinstance(pair, tuple) else (pair.source, pair.target)
        groups.setdefault(source, {})[target] = None
    lists = [list(targets) for targets in groups.values()]
    most = max(map(len, lists), default=0)
    return list(groups), [[row[i] if i < len(row) else None for row in lists] for i in range(most)]


def lines(scores: dict[str, Score]) -> list[str]:
    """Scores as lines for a terminal: name, value, signature."""
    width = max(map(len, scores), default=0)
    return [f"{name:<{width}}  {s.value:8.2f}  {s.signature}".rstrip() for name, s in scores.items()]


def as_json(scores: dict[str, Score]) -> dict[str, Any]:
    """Scores as one JSON-able object: name -> value, signature and parts."""
    return {name: {"value": s.value, "signature": s.signature, **s.extra} for name, s in scores.items()}
