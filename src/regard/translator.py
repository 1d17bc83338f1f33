"""A translator: texts in, texts out."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, overload

import torch

from regard.architecture import Model
from regard.checkpoints.folders import save_model
from regard.decoding.alignment import forced
from regard.decoding.alternatives import Alternative, alternatives
from regard.decoding.banks import Demand
from regard.decoding.confidence import Judge
from regard.decoding.context import Context, Trained, before_of, in_order, thread_of
from regard.decoding.generate import BATCH_TOKENS, WINDOW, Job, Workers, run_job
from regard.decoding.mbr import Mbr
from regard.decoding.options import Hypothesis, Search, search_options
from regard.decoding.quality import checked
from regard.decoding.shortlist import Shortlist
from regard.decoding.wishes import Plan, Wishes
from regard.documents import TranslatedDocument, translate_document
from regard.errors import UserError
from regard.loaded import Loaded
from regard.text.tokenizer import Tokenizers

log = logging.getLogger("regard.translator")


@dataclass
class Translation:
    """One answer with what is known about it.

    score: log_prob normalised by length, as the search ranks; with MBR the expected utility. token_log_probs: one a token,
    and one for the end mark if finished. finished: False if the length limit cut the answer. truncated: the source was
    longer than the model reads and lost its end. unknown: source tokens that the vocabulary lacks. alternatives: further
    answers, best first. ids: of tokens. flags: names of what is suspicious (`regard.decoding.flags.FLAGS`), unkept: phrases
    and parts that were promised and are not there. words: text and log_prob of each. With `confidence`: alignment: pairs of
    source word and word, from 0; uncovered: source words hardly looked at; explained: share of its cost that the source
    takes away; quality: an estimate of its chrF, from 0 to 100, where `regard evaluate --calibrate` has fitted one.
    """

    source: str
    text: str
    score: float
    log_prob: float
    tokens: list[str] = field(default_factory=list)
    token_log_probs: list[float] = field(default_factory=list)
    finished: bool = True
    truncated: bool = False
    unknown: int = 0
    alternatives: list[Translation] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    unkept: list[str] = field(default_factory=list)
    words: list[dict[str, Any]] = field(default_factory=list)
    alignment: str | None = None
    uncovered: list[str] = field(default_factory=list)
    explained: float | None = None
    quality: float | None = None

    def json(self) -> dict[str, Any]:
        """The same as JSON types."""
        return asdict(self)


class Translator(Loaded):
    """A model with its tokenizers and the search it is used with. meta: what a model folder knows besides."""

    what = "a translator"
    use = "regard translate"

    def __init__(
        self, model: Model, tokenizers: Tokenizers, search: Search | None = None, meta: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(model, tokenizers, meta)
        self.search = Search() if search is None else search
        self.shortlist: Shortlist | None = None

    @property
    def replaces_unknown(self) -> bool:
        """Whether unknown tokens become the source word that was looked at most where a call does not say (key
        search.replace_unknown of a recipe)."""
        return (self.meta.get("search") or {}).get("replace_unknown") is True

    @overload
    def translate(self, texts: Sequence[str], *, details: Literal[False] = False, **options: Any) -> list[str]: ...

    @overload
    def translate(self, texts: Sequence[str], *, details: Literal[True], **options: Any) -> list[Translation]: ...

    def translate(
        self,
        texts: Sequence[str],
        *,
        details: bool = False,
        prefix: str | Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        workers: int | Workers = 1,
        first: int = 0,
        progress: Callable[[int, str], None] | None = None,
        **search: Any,
    ) -> list[str] | list[Translation]:
        """A translation of each text, in order; with `details` a Translation each.

        search: any option of `Search` by name (num_beams, length_penalty, num_return, sample …), None for this
        translator's own. prefix: how each translation begins, or all. An empty text has an empty translation. A
        source longer than the model reads loses its end, which is logged and flagged. Besides, the options of
        `regard.decoding.wishes.Wishes`: require, forbid, glossary, keep, complete, replace_unknown, confidence, context; and
        those of `regard.decoding.mbr.Mbr`: mbr, candidates. context may also be a number: the texts are sentences of
        documents in order, blank texts between documents, and each is read with so many before it. first: the number of the
        first text, on which samples depend beside the seed. progress(number, text): called with more of a translation
        as it becomes certain: in beam search what all hypotheses share. UserError for wrong options.
        """
        if isinstance(texts, str):
            raise UserError('translate takes a list of texts, not one text: write translate(["…"])')
        prefix = [prefix] * len(texts) if isinstance(prefix, str) else prefix
        if (thread := thread_of(search.get("context"), self.meta)) is not None:
            more = {"prefix": prefix, "batch_tokens": batch_tokens, "workers": workers, "first": first, "progress": progress}
            made = in_order(self.translate, texts, **(search | more | {"context": thread}))
            return made if details else [one.text for one in made]
        mbr, search = Mbr.divided(search)
        wishes, named = self._wishes(search)
        options = self._options(named)
        plans, own, framed = self._planned(texts, wishes, prefix)
        sources, begin = [ids for ids, _ in framed], self._begun(prefix, options, plans)
        bos, eos = self.marks()
        given = [plan.before.given(bos) for plan in plans] if wishes.context else ()
        tell = None if progress is None or mbr else self._follow(progress)
        job = Job(mbr.widened(options) if mbr else options, bos, eos, batch_tokens, first, tell, self.shortlist, given)
        found = self._run(job, sources, begin, workers, details or bool(wishes))
        if mbr:
            found = mbr.chosen(found, self.tokenizers.target.decode_batch, options, options.num_return)
        answers = [[replace(h, source_cut=True) for h in each] if over else each for each, (_, over) in zip(found, framed)]
        if cut := sum(answer[0].source_cut for answer in answers):
            log.warning("%d of %d sources were longer than the model reads and lost their end", cut, len(texts))
        if not details and not (wishes.replace_unknown or any(plan.outs or plan.symbols for plan in plans)):
            return self.tokenizers.target.decode_batch([answer[0].ids for answer in answers])
        made = [self._detail(*each) for each in zip(texts, own, answers)]
        self._judge(wishes, batch_tokens).complete(plans, sources, made)
        return made if details else [one.text for one in made]

    def _wishes(self, named: dict[str, Any]) -> tuple[Wishes, dict[str, Any]]:
        """What is wished of one call, as this translator does it where the call says nothing, and the search's options."""
        if named.get("replace_unknown") is None:
            named["replace_unknown"] = self.replaces_unknown
        if not isinstance(named.get("context"), (list, tuple)):
            named.pop("context", None)
        return Wishes.divided(named)

    def _planned(
        self, texts: Sequence[str], wishes: Wishes, prefix: Sequence[str] | None
    ) -> tuple[list[Plan], list[list[int]], list[tuple[list[int], bool]]]:
        """What is asked of each translation, the ids of its source, and these as the encoder reads them, with whether they
        lost their end."""
        plans = wishes.plans(texts, self.tokenizers, prefix) if wishes else [Plan(text) for text in texts]
        own = self.tokenizer.encode_batch([plan.text if plan.text.strip() else "" for plan in plans])
        if wishes.context:
            if self.shortlist is not None:
                raise UserError("context and a shortlist do not go together: leave one of them away")
            trained = Trained.of(self.meta, self.model)
            before = before_of(wishes.context, own, self.tokenizers, self.marks()[0], trained)
            for plan, its in zip(plans, before):
                plan.before = its
        return plans, own, [self._framed([*plan.before.source, *ids], plan.text) for plan, ids in zip(plans, own)]

    def judge(
        self, texts: Sequence[str], translations: Sequence[str], batch_tokens: int = BATCH_TOKENS
    ) -> list[Translation]:
        """What this model thinks of translations that are there already, of whatever origin: all that `translate` tells with
        `confidence`. UserError: there is not one for each text."""
        if len(texts) != len(translations):
            raise UserError(f"{len(translations)} translations for {len(texts)} texts: there must be one for each")
        sources = [self._framed(ids, text) for ids, text in zip(self.tokenizer.encode_batch(list(texts)), texts)]
        ids = self.tokenizers.target.encode_batch(list(translations))
        passes = forced(self.model, [one for one, _ in sources], [(one, True) for one in ids], *self.marks(), batch_tokens)
        made = []
        for text, said, written, (source, over), its in zip(texts, translations, ids, sources, passes):
            total = sum(its.log_probs)
            answer = Hypothesis(written, total / (len(written) + 1), total, its.log_probs, True, over)
            made.append(replace(self._detail(text, source, [answer]), text=said))
        plans = [Plan(text) for text in texts]
        self._judge(Wishes(confidence=True), batch_tokens).complete(plans, [one for one, _ in sources], made)
        return made

    def _judge(self, wishes: Wishes, batch_tokens: int) -> Judge:
        formula = self.meta.get("quality")
        known = None if formula is None else checked(formula)
        return Judge(
            self.model, self.tokenizers, lambda ids: self.frame(ids)[0][0], self.marks(), wishes, batch_tokens, known
        )

    def alternatives(self, text: str, prefix: str = "", count: int = 5, **search: Any) -> list[Alternative]:
        """What may follow `prefix`, the beginning of a translation of this text, likeliest first: at most `count` next
        tokens, and the best translation that goes on with each. search: options, as in `translate`."""
        return alternatives(self, text, prefix, count, self._options(search))

    def translate_document(self, text: str, format: str = "text", **options: Any) -> TranslatedDocument:
        """A document translated in place: subtitles, Markdown, HTML, a catalogue of gettext, plain text. format: a name of
        `regard.text.formats.FORMATS`. options: see `regard.documents.translate_document`."""
        return translate_document(self, text, format, **options)

    def _run(
        self, job: Job, sources: Sequence[Sequence[int]], begin: Any, workers: Any, scored: bool
    ) -> list[list[Hypothesis]]:
        """The answers to framed sources; another engine answers here in its own way. scored: the log-probability of each
        token is asked for (here it is always known)."""
        return run_job(job, self.model, sources, begin, workers)

    def stream(self, texts: Iterable[str], *, window: int = WINDOW, **options: Any) -> Iterator[Any]:
        """`translate` for any number of texts, endless ones too: `window` of them are read, translated and given back."""
        left, first = iter(texts), 0
        if isinstance(options.get("context"), int):
            options["context"] = Context(options["context"])
        while chunk := list(islice(left, window)):
            yield from self.translate(chunk, first=first, **options)
            first += len(chunk)

    def use_shortlist(self, folder: str | Path) -> None:
        """From now on score only target tokens that the shortlist of this folder holds for a batch's sources: faster, and
        log-probabilities are those among them. UserError: the folder has none, or one that does not fit."""
        if not hasattr(getattr(self.model, "head", None), "narrowed"):
            raise UserError("a shortlist serves one model at a time: leave the others, or the shortlist, away")
        its = self.model.description
        self.shortlist = Shortlist.open(folder, its.encoder.embed.vocab_size, its.head.vocab_size)
        if self.shortlist is None:
            raise UserError(f"{folder}: has no shortlist; make one with regard shortlist {folder}")

    def _follow(self, progress: Callable[[int, str], None]) -> Callable[[int, list[int]], None]:
        """`progress` told of tokens; bytes of half a character wait for the others."""
        streams = defaultdict(self.tokenizers.target.stream)

        def tell(number: int, ids: list[int]) -> None:
            text = "".join(streams[number].push(each) for each in ids)
            if text:
                progress(number, text)

        return tell

    def _options(self, named: Mapping[str, Any]) -> Search:
        """The options of one call. What the model could write but no text has is never written."""
        options = search_options(self.search, **named)
        absent = [*range(self.tokenizers.target.vocab_size, self.model.description.head.vocab_size)]
        if Trained.of(self.meta) is not None and len(set(self.marks())) > 1:
            absent.append(self.marks()[0])  # it parts sentences, and only one is asked for
        return replace(options, suppress_tokens=(*options.suppress_tokens, *absent)) if absent else options

    def marks(self) -> tuple[int, int]:
        """What the decoder starts with and what ends an answer: as the folder says, else as the tokenizer does."""
        told, target = self.meta.get("ids") or {}, self.tokenizers.target
        starts = (told.get("bos"), target.bos, target.pad)
        ends = (target.eos, told.get("eos"))
        bos, eos = (next((one for one in found if one is not None), None) for found in (starts, ends))
        if bos is None or eos is None:
            raise UserError("neither the folder nor the tokenizer says what the decoder starts and ends with")
        return bos, eos

    def _framed(self, ids: list[int], text: str) -> tuple[list[int], bool]:
        """A source as the encoder reads it, nothing for an empty text, and whether it lost its end."""
        if not text.strip():
            return [], False
        (framed, _), over = self.frame(ids)
        return framed, over

    def _begun(self, prefix: Sequence[str] | None, options: Search, plans: Sequence[Plan]) -> list[Demand] | None:
        """What each answer must begin with and hold; None if nothing."""
        if prefix is None:
            return [plan.demand(()) for plan in plans] if any(plan.rules for plan in plans) else None
        if len(prefix) != len(plans):
            raise UserError(f"{len(prefix)} prefixes were given for {len(plans)} sources: there must be one for each")
        mark = [] if options.first_token is None else [options.first_token]
        begun = self.tokenizers.target.encode_batch([plan.whole_words(text) for plan, text in zip(plans, prefix)])
        return [plan.demand([*mark, *ids]) for plan, ids in zip(plans, begun)]

    def _detail(self, source: str, ids: Sequence[int], answers: list[Hypothesis]) -> Translation:
        unknown = sum(i == self.tokenizer.unk for i in ids)
        made = [self._translation(source, answer, unknown) for answer in answers]
        made[0].alternatives = made[1:]
        return made[0]

    def _translation(self, source: str, answer: Hypothesis, unknown: int) -> Translation:
        target = self.tokenizers.target
        tokens = [target.piece(i) for i in answer.ids]
        facts = (answer.score, answer.log_prob, tokens, list(answer.token_log_probs), answer.finished, answer.source_cut)
        return Translation(source, target.decode(answer.ids), *facts, unknown, ids=list(answer.ids))

    def save(self, folder: str | Path) -> None:
        """Write a model folder that `load` opens again (see `regard.checkpoints.folders.save_model`)."""
        usual = asdict(Search())
        search = {key: value for key, value in asdict(self.search).items() if value != usual[key]}
        if self.replaces_unknown:
            search["replace_unknown"] = True
        save_model(folder, self.model, self.tokenizers, self.meta | {"search": search})


def load(
    folder_or_name: str | Path,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    extend: bool = False,
) -> Translator:
    """`regard.load` for a folder that should hold a translator; UserError says what it holds instead."""
    from regard.loading import load_as

    return load_as(Translator, folder_or_name, device, dtype, extend)
