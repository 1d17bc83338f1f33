"""Learning a vocabulary: from lines and a plan to a pipeline of the `tokenizers` library that loses no text.

Every pipeline is: normaliser, division into words, model, decoder. Four habits keep text whole and special symbols safe:

- Spaces stay spaces inside the pieces (" the"), so no character of the text is taken as a marker.
- "<" never stands in one piece with a letter (or a word piece starts with a space), so no piece equals "</s>" or "<0x41>".
- bpe and bytes work on bytes; unigram falls back on bytes for characters outside its vocabulary.
- words and characters have a vocabulary that can be too small: what is outside becomes one <unk>, printed as U+FFFD.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Backend

from regard.errors import UserError
from regard.text.unigram import learn

Kind = Literal["unigram", "bpe", "words", "characters", "bytes"]
Normalization = Literal["nfc", "nfkc", "nfd", "none"]

PAD, UNK, BOS, EOS = "<pad>", "<unk>", "<s>", "</s>"
SPECIALS = (PAD, UNK, BOS, EOS)
UNKNOWN = "\ufffd"
BYTE_TOKENS = tuple(f"<0x{value:02X}>" for value in range(256))

# Letters with their marks and joiners (ZWNJ, ZWJ), an elided word with its apostrophe (l', qu'), digits, everything else.
PIECES = (
    r" ?[\p{L}\p{M}\x{200C}\x{200D}]+(?:['’](?=\p{L}))?"
    r"| ?\p{N}+"
    r"| ?[^\s\p{L}\p{M}\p{N}\x{200C}\x{200D}]+"
    r"|\s"
)
BETWEEN_SPACES = r" [^ ]+| "


@dataclass(frozen=True)
class Plan:
    """How to make a tokenizer. `vocab_size` is the largest number of symbols, specials and extra symbols included (bytes has
    its 260 always); `normalization` and `lowercase` change the text for good and are stated in tokenizer.json; `dropout` is
    BPE-dropout (Provilkov et al. 2020), used in training only and never saved."""

    kind: Kind = "unigram"
    vocab_size: int = 8000
    lowercase: bool = False
    normalization: Normalization = "nfc"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name, known in (("kind", get_args(Kind)), ("normalization", get_args(Normalization))):
            if getattr(self, name) not in known:
                raise UserError(f"tokenizer.{name}={getattr(self, name)!r} is not known; use one of {', '.join(known)}")
        if not 0.0 <= self.dropout < 1.0:
            raise UserError(f"tokenizer.dropout={self.dropout} must be at least 0 and below 1")
        if self.dropout and self.kind != "bpe":
            raise UserError(f"tokenizer.dropout={self.dropout} needs tokenizer.kind=bpe (it is {self.kind})")
        if self.vocab_size <= len(SPECIALS):
            raise UserError(f"tokenizer.vocab_size={self.vocab_size} is too small: {len(SPECIALS)} go to specials")


def train_backend(lines: Iterable[str], plan: Plan, extra: Sequence[str] = ()) -> Backend:
    """A pipeline learnt from `lines`, with specials 0-3 and `extra` as the last ids. The same lines give the same pipeline.
    UserError when the lines hold no text or `plan.vocab_size` cannot hold what every text needs."""
    _check_extra(extra)
    frame = _frame(plan)
    normalizer = frame.normalizer
    normalized = (normalizer.normalize_str(line) if normalizer else line for line in lines)
    learn = {"unigram": _unigram, "bpe": _bpe, "words": _words, "characters": _characters, "bytes": _bytes}[plan.kind]
    frame.model = learn(_some(normalized), plan, len(extra))
    frame.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIALS])
    # The space after an extra symbol belongs to the symbol, so "<2xx> good day" is the symbol and then "good day".
    frame.add_tokens([AddedToken(name, special=False, normalized=False, rstrip=True) for name in extra])
    frame.decoder = _decoder(plan, extra)
    frame.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS}", pair=f"$A {EOS} $B:1 {EOS}:1", special_tokens=[(EOS, SPECIALS.index(EOS))]
    )
    frame.encode_special_tokens = True
    return frame


def _check_extra(extra: Sequence[str]) -> None:
    for name in extra:
        if not name.strip() or name != name.strip() or name in SPECIALS or name in BYTE_TOKENS:
            raise UserError(f"{name!r} cannot be an extra symbol of a tokenizer; use something like <2fr>")
    if len(set(extra)) != len(extra):
        raise UserError("an extra symbol is given twice")


def _frame(plan: Plan) -> Backend:
    """Normaliser and division into words; the model follows when it is learnt."""
    steps: list[normalizers.Normalizer] = []
    if plan.normalization != "none":
        steps.append({"nfc": normalizers.NFC, "nfkc": normalizers.NFKC, "nfd": normalizers.NFD}[plan.normalization]())
    if plan.lowercase:
        steps.append(normalizers.Lowercase())
    if plan.kind not in ("characters", "bytes"):
        steps.append(normalizers.Prepend(" "))
    backend = Backend(models.BPE())
    if steps:
        backend.normalizer = normalizers.Sequence(steps)
    split = pre_tokenizers.Split(Regex(BETWEEN_SPACES if plan.kind == "words" else PIECES), "isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    if plan.kind in ("unigram", "words"):
        backend.pre_tokenizer = split
    elif plan.kind == "bpe":
        backend.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    elif plan.kind == "bytes":
        backend.pre_tokenizer = to_bytes
    return backend


def _decoder(plan: Plan, extra: Sequence[str]) -> decoders.Decoder:
    """Pieces to text: the exact inverse of the division, minus the one space that the normaliser put in front."""
    exact = r"\A{}\z"
    steps: list[decoders.Decoder] = []
    if plan.kind in ("words", "characters"):
        shown = " " + UNKNOWN if plan.kind == "words" else UNKNOWN
        steps.append(decoders.Replace(Regex(exact.format(UNK)), shown))
    if plan.kind in ("bpe", "bytes"):
        last: list[decoders.Decoder] = [decoders.ByteLevel()]
    elif plan.kind == "unigram":
        last = [decoders.ByteFallback(), decoders.Fuse()]
    else:
        last = [decoders.Fuse()]
    if plan.kind in ("characters", "bytes"):
        steps += [decoders.Replace(Regex(exact.format(_quoted(name))), name + " ") for name in extra]
    else:
        last.append(decoders.Strip(" ", 1, 0))
    return decoders.Sequence(steps + last)


def _quoted(text: str) -> str:
    return "".join(c if c.isalnum() or c in "<>_" else f"\\x{{{ord(c):X}}}" for c in text)


def _some(lines: Iterable[str]) -> Iterator[str]:
    """The lines that are not empty; UserError if there is none."""
    empty = True
    for line in lines:
        if line.strip(" "):
            empty = False
            yield line
    if empty:
        raise UserError("a tokenizer cannot be trained: the text holds nothing but empty lines")


def _room(plan: Plan, extra: int, needed: int) -> int:
    room = plan.vocab_size - extra
    if room < needed:
        raise UserError(
            f"tokenizer.vocab_size={plan.vocab_size} is too small for {plan.kind}: use at least {needed + extra}"
        )
    return room


def _most_common(counts: Counter[str], room: int) -> list[str]:
    return [name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:room]]


def _bytes(lines: Iterator[str], plan: Plan, extra: int) -> models.Model:
    names = [*SPECIALS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    _room(plan, extra, len(names))
    return models.BPE({name: number for number, name in enumerate(names)}, [])


def _characters(lines: Iterator[str], plan: Plan, extra: int) -> models.Model:
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line)
    counts.pop(UNKNOWN, None)
    names = [*SPECIALS, *sorted(_most_common(counts, _room(plan, extra, len(SPECIALS) + 1) - len(SPECIALS)))]
    return models.BPE({name: number for number, name in enumerate(names)}, [], unk_token=UNK, fuse_unk=False)


def _words(lines: Iterator[str], plan: Plan, extra: int) -> models.Model:
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(" " + word for word in line.split(" ") if word)
    counts.pop(" " + UNKNOWN, None)
    reserved = [*SPECIALS, " "]
    names = [*reserved, *_most_common(counts, _room(plan, extra, len(reserved) + 1) - len(reserved))]
    return models.WordLevel({name: number for number, name in enumerate(names)}, UNK)


def _bpe(lines: Iterator[str], plan: Plan, extra: int) -> models.Model:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    size = _room(plan, extra, len(SPECIALS) + len(alphabet))
    learner = _frame(Plan(kind="bpe", normalization="none"))
    learner.normalizer = None  # the lines come normalised
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(SPECIALS), initial_alphabet=alphabet, show_progress=False, max_token_length=64
    )
    learner.train_from_iterator(lines, trainer)
    return learner.model


def _unigram(lines: Iterator[str], plan: Plan, extra: int) -> models.Model:
    fixed = len(SPECIALS) + len(BYTE_TOKENS)
    size = _room(plan, extra, fixed + 40) - fixed
    words = _count_words(lines)
    pieces = learn(words, _alphabet(words, size // 2), size)
    table = [*((name, 0.0) for name in (*SPECIALS, *BYTE_TOKENS)), *pieces]
    return models.Unigram(table, SPECIALS.index(UNK), byte_fallback=True)


def _count_words(lines: Iterator[str]) -> Counter[str]:
    split = pre_tokenizers.Split(Regex(PIECES), "isolated")
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(word for word, _ in split.pre_tokenize_str(line))
    return counts


def _alphabet(words: Counter[str], room: int) -> set[str]:
    """Characters with a piece of their own: those seen at least twice, the most frequent first; others go as bytes."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    often = Counter({character: count for character, count in counts.items() if count > 1})
    return {" ", *_most_common(often or counts, max(1, room - 1))}
