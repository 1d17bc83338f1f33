"""The sections of a recipe: every key, its type, its default and what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator

Kind = Literal["unigram", "bpe", "words", "characters", "bytes"]
Counted = Literal["exact_match", "word_error", "word_error_first", "wer", "per", "cer", "rouge1", "rouge2", "rougel"]
Metric = Literal["bleu", "chrf", "chrf++", "ter"] | Counted
Step = Literal["moses-lc", "no-stress", "right-to-left"]
Monitor = Literal["loss", "bleu", "chrf", "accuracy", "f1"]
Marks = Literal["auto", "none", "begin", "end", "both", "last"]
TaskKind = Literal[
    "translation", "language", "masked", "spans", "denoising", "permutation", "classification", "tagging", "images"
]


def _whole(value: Any) -> Any:
    """1e4 is a float in YAML; where a whole number is wanted it is one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _several(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Whole = Annotated[int, BeforeValidator(_whole)]


class Section(BaseModel):
    """A part of a recipe: unknown keys are refused, and no value is silently turned into another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Task(Section):
    """What is learned."""

    kind: TaskKind = Field(
        default="translation",
        description="translation (or any text from another); language (the next token); masked (hidden tokens);"
        " spans, denoising (a text from a damaged one, as T5 and BART do); permutation (as XLNet does);"
        " classification (of texts, or of pairs with data.second); tagging (a class for each word); images (a class each)",
    )
    reading: Literal["documents", "blocks", "random"] = Field(
        default="documents",
        description="of language. documents: each text is one; blocks: all text end to end, cut every data.max_length"
        " tokens, elsewhere each epoch; random: as many blocks, each beginning anywhere",
    )
    pack: bool = Field(
        default=True,
        description="of language and masked: several texts share a row of data.max_length tokens, and none sees another;"
        " not for recurrent nets",
    )
    share: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="share of the tokens that are hidden; null: 0.15, of denoising 0.3, of permutation a sixth",
    )
    span: float = Field(default=3.0, ge=1, description="of spans and denoising: mean tokens that are hidden together")
    whole_words: bool = Field(default=False, description="of masked: all pieces of a word are hidden, or none")
    shuffle: bool = Field(default=True, description="of denoising: the sentences of a text in another order")
    delete: float = Field(default=0.0, ge=0, lt=1, description="of denoising: share of the tokens that are left out")
    rotate: float = Field(default=0.0, ge=0, le=1, description="of denoising: chance that a text begins in its middle")
    shift: Whole = Field(default=0, ge=0, description="of images: pixels by which an image may be moved in training")


MONITORS: dict[str, tuple[str, ...]] = {
    "translation": ("loss", "bleu", "chrf"),
    "classification": ("loss", "accuracy", "f1"),
    "tagging": ("loss", "accuracy", "f1"),
    "images": ("loss", "accuracy", "f1"),
}
"""What may choose the best checkpoint, by kind of task; of kinds that are not here the loss alone."""


class Clean(Section):
    """Which pairs of the training text are left out before training; each is counted in the report."""

    drop_empty: bool = Field(default=True, description="drop pairs with an empty side")
    drop_copies: bool = Field(default=True, description="drop pairs whose target equals their source")
    drop_duplicates: bool = Field(default=True, description="drop pairs that stood before")
    max_words: Whole | None = Field(default=250, gt=0, description="drop pairs with more words than this on a side")
    max_characters: Whole | None = Field(
        default=2000, gt=0, description="drop pairs with more characters than this on a side"
    )
    max_ratio: float | None = Field(
        default=9.0,
        ge=1,
        description="drop pairs with a side so many times longer, beside the other, than is usual in this corpus",
    )


class Part(Section):
    """One corpus of several."""

    train: str = Field(description="files of pairs as in data.train: a path or address, with * for many")
    source: str | None = Field(default=None, description="language (or column) that is read; null: data.source")
    target: str | None = Field(default=None, description="language (or column) that is written; null: data.target")
    weight: float | None = Field(default=None, gt=0, description="share of what is read, beside the others' weights")
    tag: str = Field(default="", description="symbol in front of each source, such as <2fr>; always one token")


class Data(Section):
    """What is learned from."""

    name: str | None = Field(
        default=None, description="a named data set (`regard data list`); otherwise give the files below"
    )
    root: str | None = Field(default=None, description="folder of the named data sets; by default what REGARD_DATA names")
    more: Annotated[list[str], BeforeValidator(_several)] = Field(
        default=[], description="further named data sets for training, where single texts are read"
    )
    source: str = Field(default="en", description="language (or column) that is read")
    target: str = Field(default="fr", description="language (or column) that is written; of classification: the class")
    second: str | None = Field(
        default=None, description="of classification: column of the second text, where pairs of texts are classified"
    )
    train: str | None = Field(
        default=None,
        description="training pairs: a .tsv, .jsonl or .parquet file, or two line files SOURCE,TARGET; plain or packed."
        " Single texts: a text file too, or a folder of them; images: a folder with a folder of images for each class",
    )
    valid: str | None = Field(default=None, description="pairs watched during training, never learned from")
    test: str | None = Field(default=None, description="pairs that are scored at the end")
    unit: Literal["line", "paragraph", "file"] = Field(
        default="line", description="what is one text of a text file: a line, a paragraph (between empty lines), or all"
    )
    max_pairs: Whole | None = Field(default=None, gt=0, description="learn from the first so many pairs only; null: all")
    preprocess: Annotated[list[Step], BeforeValidator(_several)] = Field(
        default=[],
        description="what is done to the text first, in order: moses-lc (lower case and Moses tokens),"
        " no-stress (ARPAbet without stress), right-to-left (the target's words in the opposite order)",
    )
    max_length: Whole = Field(
        default=256, gt=0, description="longest side in tokens; training.on_long says what happens to longer training pairs"
    )
    context: Whole = Field(
        default=0, ge=0, description="sentences read before each, and their translations; an empty line ends a document"
    )
    clean: Clean = Field(default=Clean(), description="which training pairs are dropped")
    stream: bool = Field(
        default=False,
        description="training pairs or texts go into shards on disk and are read from there, never all in memory;"
        " data.train may have * and be an address (s3://, hf://, https://)",
    )
    mix: list[Part] = Field(
        default=[],
        description="several corpora in place of data.train, streamed and mixed: each a train, and where wanted a source,"
        " target, weight, and tag (a symbol in front of each source, such as <2fr>)",
    )
    temperature: float = Field(
        default=1.0, ge=1, description="of mix without weights: a corpus is read as often as its size ** (1 / temperature)"
    )
    buffer: Whole = Field(default=100_000, gt=0, description="of stream: examples in memory, which are shuffled together")
    workers: Whole | None = Field(default=None, gt=0, description="of stream: processes that prepare; null: one a core")

    @model_validator(mode="after")
    def _some_data(self) -> Data:
        if self.name is None and self.train is None and not self.mix:
            raise ValueError("give `name`, a named data set, or `train`, a file of pairs")
        if len({part.weight is None for part in self.mix}) > 1:
            raise ValueError("`mix`: either all corpora have a weight or none has")
        return self


class Tokens(Section):
    """How text becomes tokens."""

    kind: Kind = Field(default="unigram", description="unigram, bpe, words, characters or bytes")
    vocab_size: Whole = Field(
        default=8000, ge=8, description="size of the vocabulary, an upper limit for words and characters"
    )
    target_kind: Kind | None = Field(
        default=None, description="kind of the target's own tokenizer if it differs; needs shared: false"
    )
    target_vocab_size: Whole | None = Field(
        default=None, ge=8, description="size of the target's own vocabulary; needs shared: false"
    )
    shared: bool = Field(default=True, description="one vocabulary for both languages")
    lowercase: bool = Field(default=False, description="lower-case all text: translations come out in lower case too")
    normalization: Literal["nfc", "nfkc", "nfd", "none"] = Field(
        default="nfc", description="Unicode form: nfc, nfkc, nfd or none"
    )
    dropout: float = Field(default=0.0, ge=0, lt=1, description="BPE-dropout, in training only: share of merges left out")
    extra: Annotated[list[str], BeforeValidator(_several)] = Field(
        default=[], description="symbols that are always one token"
    )
    marks: Marks = Field(
        default="auto",
        description="where marks stand around a text: none, begin (<s> text), end (text </s>), both (<s> text </s>, pairs"
        " with </s> between), last (text </s> <s>); auto: what is usual for the task",
    )

    @model_validator(mode="after")
    def _fits(self) -> Tokens:
        for key in ("target_kind", "target_vocab_size"):
            if self.shared and getattr(self, key) is not None:
                raise ValueError(f"`{key}` needs `shared: false`: a shared vocabulary has no target side of its own")
        if self.dropout and "bpe" not in (self.kind, self.target_kind):
            raise ValueError("`dropout` needs `kind: bpe`")
        return self


class Lora(Section):
    """Low-rank updates of frozen matrices (Hu et al. 2022), learned in place of the matrices themselves."""

    rank: Whole = Field(default=0, ge=0, description="rank of an update; 0: no LoRA, all weights are learned")
    alpha: float = Field(default=16.0, gt=0, description="an update counts alpha / rank times")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="dropout on what an update reads")
    targets: Annotated[list[str], BeforeValidator(_several)] = Field(
        default=["q", "v"],
        description="which matrices: q, k, v (rows of attention's fused product), qkv (all of it), or the end of a module's"
        " name, such as output, expand, contract",
    )


class _ModelSection(Section):
    """What is trained. All keys but these are arguments of the architecture and are checked against it."""

    model_config = ConfigDict(extra="allow")

    architecture: str | None = Field(
        default=None, description="what kind of model: the name of a file in regard/models; not needed with from"
    )
    size: str | None = Field(default=None, description="a named size of the architecture; the keys below change it")
    fresh_head: bool = Field(
        default=False, description="with from: the task needs another head than the folder has, so make one, untrained"
    )

    @property
    def arguments(self) -> dict[str, Any]:
        """The architecture's own arguments."""
        return dict(self.model_extra or {})

    @property
    def folder(self) -> str | None:
        """The folder that the model comes from (key `from`)."""
        return getattr(self, "from")


_FROM: dict[str, Any] = {
    "from": (
        str | None,
        Field(
            default=None,
            description="a model folder to go on from: its weights, description and tokenizer; other keys change the"
            " description where the weights still fit",
        ),
    )
}
if TYPE_CHECKING:

    class ModelSection(_ModelSection):
        """What is trained."""

else:  # made so because `from` cannot be written as a name
    ModelSection = create_model("ModelSection", __base__=_ModelSection, __doc__=_ModelSection.__doc__, **_FROM)


class Training(Section):
    """How it is trained. The first of max_steps, max_minutes and max_epochs that is reached ends the training."""

    seed: Whole = Field(default=1, ge=0, description="the same seed gives the same weights on the same machine")
    max_steps: Whole | None = Field(default=None, gt=0, description="end after so many updates, counted from the very first")
    max_minutes: float | None = Field(
        default=None, gt=0, description="end after so many minutes of training, resumed parts included"
    )
    max_epochs: Whole | None = Field(default=None, gt=0, description="end after so many passes over the data")
    batch_tokens: Whole | Literal["auto"] = Field(
        default=2500,
        description="tokens of the longer side in a batch, padding included, or images; auto: the most that fits",
    )
    accumulate: Whole = Field(
        default=1, gt=0, description="batches whose gradients make one update; several processes share them"
    )
    parallel: Literal["auto", "none", "ddp", "fsdp"] = Field(
        default="auto",
        description="how torchrun's processes share the work: ddp (each has the whole model), fsdp (each a piece of it);"
        " auto: ddp where there are several",
    )
    activation_checkpointing: bool = Field(
        default=False, description="compute blocks anew in the backward pass: less memory for about a third more work"
    )
    device: Literal["auto", "cpu"] = Field(default="auto", description="auto: a GPU where there is one; cpu")
    precision: Literal["fp32", "bf16", "fp16"] = Field(
        default="fp32", description="fp32, bf16 or fp16; on CPUs fp32 is fastest"
    )
    optimizer: Literal["muon", "adam", "adamw"] = Field(
        default="adam", description="muon (Adam for embeddings, heads and vectors), adam or adamw"
    )
    learning_rate: float = Field(default=1e-3, gt=0, description="the highest rate, reached at the end of the warm-up")
    betas: list[float] = Field(default=[0.9, 0.98], min_length=2, max_length=2, description="Adam's two memories")
    eps: float = Field(default=1e-9, gt=0, description="Adam's smallest divisor")
    weight_decay: float = Field(default=0.0, ge=0, description="pull of matrices towards zero; vectors are spared")
    schedule: Literal["inverse_sqrt", "cosine", "linear", "wsd", "constant"] = Field(
        default="inverse_sqrt",
        description="inverse_sqrt, cosine, linear, wsd or constant; the middle three end at final_learning_rate when"
        " max_steps or max_minutes is reached, whichever is nearer",
    )
    warmup_steps: Whole = Field(default=300, ge=0, description="updates over which the rate rises to learning_rate")
    final_learning_rate: float = Field(default=0.0, ge=0, description="where cosine, linear and wsd end")
    label_smoothing: float = Field(
        default=0.1,
        ge=0,
        lt=1,
        description="share of probability spread over all tokens; 0 by default where the task is not translation",
    )
    clip_norm: float = Field(default=1.0, ge=0, description="longest gradient allowed; 0: never shortened")
    ema: float = Field(
        default=0.0, ge=0, lt=1, description="running mean of the weights, its memory an update (0.999); 0: none"
    )
    average: Literal["none", "last", "best"] = Field(
        default="none",
        description="what the finished model is: none (the best), or the mean of the last or best checkpoints",
    )
    average_count: Whole = Field(default=5, gt=0, description="checkpoints in that mean")
    save_every: Whole = Field(default=500, gt=0, description="updates between checkpoints")
    keep_last: Whole = Field(default=3, gt=0, description="newest checkpoints kept beside the best")
    evaluate_every: Whole = Field(default=500, gt=0, description="updates between looks at the validation pairs")
    monitor: Monitor = Field(
        default="loss",
        description="what makes a checkpoint the best: loss; of translation bleu, chrf; of classes accuracy, f1",
    )
    freeze: Annotated[list[str], BeforeValidator(_several)] = Field(
        default=[], description="weights that are not learned, by patterns of their names, such as encoder.embed.*"
    )
    lora: Lora = Field(default=Lora(), description="low-rank updates in place of learning whole matrices")
    patience: Whole = Field(default=0, ge=0, description="looks without a better value before training ends; 0: never")
    log_every: Whole = Field(default=50, gt=0, description="updates between lines of the log")
    tensorboard: bool = Field(default=False, description="write a TensorBoard log too")
    prefetch: Whole = Field(default=4, ge=0, description="updates whose batches are made ahead in a thread; 0: none")
    threads: Whole | None = Field(default=None, gt=0, description="CPU threads; by default as many as there are cores")
    on_long: Literal["skip", "cut", "error"] = Field(
        default="skip", description="what to do with training pairs longer than data.max_length: skip, cut or error"
    )

    @model_validator(mode="after")
    def _ends(self) -> Training:
        if self.max_steps is None and self.max_minutes is None and self.max_epochs is None:
            raise ValueError("one of `max_steps`, `max_minutes`, `max_epochs` must say when training ends")
        if self.schedule in ("cosine", "linear", "wsd") and self.max_steps is None and self.max_minutes is None:
            raise ValueError(f"`schedule: {self.schedule}` needs `max_steps` or `max_minutes` to know where to end")
        if self.lora.rank and self.average != "none":
            raise ValueError("`average` is the mean of whole checkpoints: with `lora` use `ema`, or average: none")
        if self.batch_tokens != "auto" and self.batch_tokens < 1:
            raise ValueError("`batch_tokens` must be at least 1")
        if any(not 0 <= beta < 1 for beta in self.betas):
            raise ValueError("`betas` must be two numbers from 0 up to, but not including, 1")
        return self


class SearchSection(Section):
    """How translations are found; these are the defaults that the finished model carries."""

    num_beams: Whole = Field(default=5, gt=0, description="beams; 1: greedy")
    length_penalty: float = Field(default=1.0, description="above 0 favours longer translations")
    length_form: Literal["power", "gnmt"] = Field(
        default="power", description="power: length ** penalty; gnmt: Wu et al. 2016"
    )
    coverage_penalty: float = Field(
        default=0.0, ge=0, description="weight of Wu et al.'s penalty for source words not attended to"
    )
    min_length: Whole = Field(default=0, ge=0, description="fewest tokens of a translation")
    max_length: Whole | None = Field(
        default=None, gt=0, description="most tokens of a translation; null: twice the source and 50"
    )
    stopping: Literal["standard", "first", "exhaustive"] = Field(
        default="standard", description="when the beam search is content"
    )
    repetition_penalty: float = Field(default=1.0, gt=0, description="above 1 discourages tokens already written")
    no_repeat_ngram_size: Whole = Field(default=0, ge=0, description="no run of so many tokens twice; 0: allowed")
    replace_unknown: bool = Field(default=False, description="unknown tokens become the source word that was looked at")


class Evaluation(Section):
    """How the model is judged, while it trains and at the end."""

    metrics: Annotated[list[Metric], BeforeValidator(_several)] = Field(
        default=["bleu", "chrf"],
        description="bleu, chrf, chrf++, ter, exact_match, word_error (entries that equal no reference),"
        " word_error_first (that do not equal the first), wer, per, cer (errors in words, phonemes, characters),"
        " rouge1, rouge2, rougel (words in common with a summary)",
    )
    tokenize: str | None = Field(
        default=None, description="sacreBLEU's tokenizer (13a, none, zh …); null: by the target language"
    )
    group: bool = Field(
        default=False, description="pairs with the same source are one sentence with several references, all of them right"
    )
    during: bool = Field(default=True, description="translate validation sentences while training, not only take their loss")
    max_sentences: Whole = Field(default=1000, gt=0, description="validation sentences translated at each look")
    samples: Whole = Field(default=3, ge=0, description="sample translations shown at each look")
    calibrate: bool = Field(default=False, description="fit the quality estimate to the validation pairs (50 or more)")
