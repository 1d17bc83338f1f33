"""Tokenizers from a mere list of tokens, as other toolkits keep them beside a model: the text was divided before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from regard.errors import UserError
from regard.text.tokenizer import Tokenizer


def listed_tokenizer(
    tokens: Sequence[str], roles: Mapping[str, str], before: Sequence[str] = (), after: Sequence[str] = ()
) -> Tokenizer:
    """The tokenizer whose ids are the places of `tokens`.

    roles: the names of pad, unk, bos and eos, as far as there are such symbols. before, after: names that the model reads
    around a text. Where every token is one character, a text is divided into its characters and spaces are dropped;
    otherwise the text must come divided, with spaces between its tokens, and goes out so. What is not listed is unknown.
    UserError: a token is listed twice, or there is no unknown symbol.
    """
    twice = sorted({token for token in tokens if tokens.count(token) > 1}) if len(set(tokens)) < len(tokens) else []
    if twice:
        raise UserError(f"a token is listed twice in the vocabulary: {', '.join(map(repr, twice[:5]))}")
    unk = roles.get("unk")
    if unk is None or unk not in tokens:
        raise UserError(f"the vocabulary has no unknown symbol (looked for {unk!r})")
    ids = {token: number for number, token in enumerate(tokens)}
    named = {role: name for role, name in roles.items() if name in ids}
    plain = [token for token in tokens if token not in named.values()]
    single = bool(plain) and all(len(token) == 1 and not token.isspace() for token in plain)
    if single:
        backend = Backend(models.BPE(ids, [], unk_token=unk, fuse_unk=False))
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"\s+"), "removed")
        backend.decoder = decoders.Fuse()
    else:
        backend = Backend(models.WordLevel(ids, unk))
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in sorted(set(named.values()))])
    if before or after:
        around = " ".join([*before, "$A", *after])
        marks = sorted({*before, *after})
        backend.post_processor = processors.TemplateProcessing(
            single=around, pair=f"{around} $B:1", special_tokens=[(name, ids[name]) for name in marks]
        )
    config = {f"{role}_token": name for role, name in named.items()}
    return Tokenizer(backend, config={"tokenizer_class": "PreTrainedTokenizerFast", **config})
