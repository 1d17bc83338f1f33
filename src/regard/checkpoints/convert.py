"""Models of other programs to model folders: CTranslate2's encoder-decoder Transformers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.architecture import Description
from regard.checkpoints.binary import NAME, Binary, dequantized, read_binary
from regard.checkpoints.folders import doubted, save_model
from regard.checkpoints.formats import words
from regard.checkpoints.rules import Joined, Rule, Weights, take
from regard.checkpoints.tensors import read_json
from regard.errors import UserError
from regard.files import parsed, read_plain
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense, Gated
from regard.layers.heads import NextToken
from regard.layers.initial import Uninitialised
from regard.layers.masks import Causal
from regard.layers.norms import LayerNorm, RMSNorm
from regard.layers.positions import Learned, Sinusoidal, sinusoids
from regard.layers.stack import Stack
from regard.text.listed import listed_tokenizer
from regard.text.spm import SOURCE, TARGET, spm_tokenizers
from regard.text.tokenizer import Tokenizers

KINDS = {"": 8, "TransformerBase": 8, "TransformerBig": 16, "TransformerSpec": 8}
"""Kinds of model -> their number of heads, where the file does not say another."""
ACTIVATIONS = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu", 5: "tanh"}
SETTINGS = words(
    "num_heads num_heads_kv multi_query_attention pre_norm activation alignment_layer alignment_heads scale_embeddings"
    " scale_outputs embeddings_merge start_from_zero_embedding with_source_bos with_source_eos with_target_bos"
    " alibi alibi_use_positive_positions scale_alibi layer_norm_use_residual"
)
"""Last parts of the names of what is no weight."""
UNSET = ("alibi", "layer_norm_use_residual")
"""Settings that regard does not compute where they are set."""
NEVER = -1e4
"""Bias of a token that the model has no number for and must never write."""
PADS = ("<blank>", "<pad>")
USUAL = {"unk": "<unk>", "bos": "<s>", "eos": "</s>"}
EMBEDDINGS = ("encoder/embeddings", "decoder/embeddings")
TABLE = "position_encodings/encodings"


def convert_folder(source: str | Path, output: str | Path) -> Path:
    """Write the model of a CTranslate2 folder (model.bin, vocabularies, config.json) as a model folder; gives its path.

    The folder opens in transformers too where one of its classes computes the same. Weights of 8 and 16 bits become what
    they stand for. Texts are divided by source.spm and target.spm where the folder has them, else as `listed_tokenizer`
    says: CTranslate2 wants texts that were divided before. UserError names everything in the model that regard does not
    compute.
    """
    source, output = Path(source), Path(output)
    if not (source / NAME).is_file():
        raise UserError(f"{source}: has no {NAME}; regard converts folders of CTranslate2")
    with doubted(str(source / NAME)):
        return _converted(source, output)


def _converted(source: Path, output: Path) -> Path:
    found = _Found(source, read_binary(source / NAME))
    description = found.description()
    with Uninitialised():
        model = description.build().eval()
    ours = dict(model.named_parameters())
    theirs = found.needed(description)
    shapes = {name: tuple(array.shape) for name, array in theirs.items()}
    taken = take(_rules(found.gated), ours, shapes, theirs.__getitem__, str(source / NAME))
    with torch.no_grad():
        for name, tensor in taken.items():
            ours[name].copy_(tensor)
    named = found.ids("target")
    ids = {"bos": found.start, "eos": named.get(found.names["eos"]), "pad": description.pad}
    if (mark := named.get(found.names["bos"])) != found.start:
        ids["mark"] = mark
    save_model(output, model, found.tokenizers(), {"ids": ids})
    return output


class _Found:
    """What a CTranslate2 folder says."""

    def __init__(self, folder: Path, binary: Binary) -> None:
        self.folder, self.path = folder, folder / NAME
        if binary.kind not in KINDS:
            known = ", ".join(sorted(filter(None, KINDS)))
            raise UserError(f"{self.path}: holds a {binary.kind}; regard converts {known}")
        self.heads = KINDS[binary.kind]
        self.config = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
        arrays = dequantized(binary.arrays)
        arrays |= {name: arrays[other] for name, other in binary.aliases.items() if other in arrays}
        arrays = {name.replace("/embeddings_0/", "/embeddings/"): array for name, array in arrays.items()}
        self.settings = {name: array for name, array in arrays.items() if name.split("/")[-1] in SETTINGS}
        self.weights = {name: array.float() for name, array in arrays.items() if name not in self.settings}
        self.gated = any("/linear_0_noact/" in name for name in self.weights)
        self._refuse()
        self.tokens = {side: self._tokens(side) for side in ("source", "target")}
        self.names = {role: self.config.get(f"{role}_token") or usual for role, usual in USUAL.items()}
        self.names["pad"] = next((name for name in PADS if name in self.tokens["target"]), PADS[-1])
        self.start = self._start()

    def _refuse(self) -> None:
        known = {name for rule in _rules(self.gated).rules for name in rule.names}
        found = {re.sub(r"/layer_\d+/", "/layer_#/", name) for name in self.weights} - known
        found |= {name for name, array in self.settings.items() if name.split("/")[-1] in UNSET and bool(array.any())}
        if found:
            raise UserError(f"{self.path}: has parts that regard does not compute: {', '.join(sorted(found))}")

    # ---------------------------------------------------------------------------------------------------- settings

    def setting(self, half: str, key: str, usual: float) -> float:
        """A number of one half of the model; older files have one for both."""
        array = self.settings.get(f"{half}/{key}", self.settings.get(key))
        return usual if array is None else array.item()

    def ids(self, side: str) -> dict[str, int]:
        """The numbers of one side's tokens."""
        return {token: number for number, token in enumerate(self.tokens[side])}

    def _tokens(self, side: str) -> list[str]:
        """The tokens of one side; an unknown symbol that is not listed is the last."""
        for name in (f"{side}_vocabulary.json", f"{side}_vocabulary.txt", "shared_vocabulary.json", "shared_vocabulary.txt"):
            if (self.folder / name).is_file():
                tokens = _listed(self.folder / name)
                unk = self.config.get("unk_token") or USUAL["unk"]
                return tokens if unk in tokens else [*tokens, unk]
        raise UserError(f"{self.folder}: has no {side}_vocabulary.json, {side}_vocabulary.txt or shared vocabulary")

    def _start(self) -> int | None:
        """The id that the decoder starts from. Where it starts from no token's vector but from zeros, a token is added whose
        vector is zero, and which is never written."""
        if self.setting("decoder", "start_from_zero_embedding", 0):
            return self._pad()
        name = self.config.get("decoder_start_token", self.names["bos"])
        if not self.setting("", "with_target_bos", 1):
            name = self.names["eos"]
        return self.ids("target").get(name)

    def _pad(self) -> int:
        old = [f"{half}/embeddings/weight" for half in ("encoder", "decoder")]
        head, bias = "decoder/projection/weight", "decoder/projection/bias"
        size = len(self.weights[head])
        self.weights.setdefault(bias, torch.zeros(size))
        longer = {id(self.weights[name]): _longer(self.weights[name], 0.0) for name in (*old, head)}
        for name in (*old, head):
            self.weights[name] = longer[id(self.weights[name])]
        self.weights[bias] = _longer(self.weights[bias], NEVER)
        for tokens in self.tokens.values():
            tokens.append(PADS[-1])
        self.names["pad"] = PADS[-1]
        return size

    # ------------------------------------------------------------------------------------------------- description

    def description(self) -> Description:
        """What the model is."""
        decoder = self.weights["decoder/projection/weight"]
        bias = "decoder/projection/bias" in self.weights
        head = NextToken(len(decoder), bias, float(self.setting("decoder", "scale_outputs", 1.0)))
        pads = {self.ids(side).get(self.names["pad"]) for side in self.tokens}
        pad = pads.pop() if len(pads) == 1 else None
        return Description(head, self._stack("encoder"), self._stack("decoder"), tied=self._tied(), pad=pad)

    def _tied(self) -> Any:
        first, last, head = (self.weights[f"{name}/weight"] for name in (*EMBEDDINGS, "decoder/projection"))
        embeddings, ends = _same(first, last), _same(last, head)
        return ("all" if embeddings else "head") if ends else "embeddings" if embeddings else "no"

    def needed(self, description: Description) -> dict[str, Tensor]:
        """The weights without those that are tied to others, and without tables of positions that follow from a formula."""
        left = set()
        if description.tied in ("all", "head"):
            left.add("decoder/projection/weight")
        if description.tied in ("all", "embeddings"):
            left.add("decoder/embeddings/weight")
        halves = {"encoder": description.encoder, "decoder": description.decoder}
        left |= {f"{half}/{TABLE}" for half, its in halves.items() if its.embed.position.limit is None}
        return {name: array for name, array in self.weights.items() if name not in left}

    def _stack(self, half: str) -> Stack:
        first = f"{half}/layer_0"
        size, d_model = self.weights[f"{half}/embeddings/weight"].shape
        count = len({found[1] for name in self.weights if (found := re.match(rf"{half}/layer_(\d+)/", name))})
        pre = bool(self.setting(half, "pre_norm", 1))
        kv = 1 if self.setting(half, "multi_query_attention", 0) else self._shared_heads(first)
        heads = Attention(int(self.setting(half, "num_heads", self.heads)), kv)
        inner, outer = (self._has(f"{first}/self_attention/linear_{number}/bias") for number in (0, 1))
        heads = replace(heads, bias=inner, output_bias=None if outer == inner else outer)
        code = int(self.setting(half, "activation", 0))
        if code not in ACTIVATIONS:
            raise UserError(f"{self.path}: activation {code} is not known; regard computes {sorted(ACTIVATIONS)}")
        d_ff, biased = len(self.weights[f"{first}/ffn/linear_0/weight"]), self._has(f"{first}/ffn/linear_0/bias")
        inner = (Gated if self.gated else Dense)(d_ff, ACTIVATIONS[code], biased)
        norm = self._norm(f"{first}/ffn/layer_norm")
        block = Block(heads, inner, norm=norm, placement="pre" if pre else "post")
        if half == "decoder":
            block = replace(block, attention=replace(heads, mask=Causal()), cross=replace(heads, cross=True))
        embed = Tokens(size, self._position(half, d_model), self._scaled(half, d_model))
        if self._has(f"{half}/layernorm_embedding/gamma"):
            embed = replace(embed, norm=self._norm(f"{half}/layernorm_embedding"))
        last = self._norm(f"{half}/layer_norm") if self._has(f"{half}/layer_norm/gamma") else None
        return Stack(d_model, embed, (block,) * count, last)

    def _shared_heads(self, layer: str) -> int | None:
        array = self.settings.get(f"{layer}/self_attention/num_heads_kv")
        return None if array is None else int(array)

    def _has(self, name: str) -> bool:
        return name in self.weights

    def _norm(self, name: str) -> Any:
        epsilon = self.config.get("layer_norm_epsilon")
        if self._has(f"{name}/beta"):
            return LayerNorm(1e-5 if epsilon is None else epsilon)
        return RMSNorm(1e-6 if epsilon is None else epsilon)

    def _position(self, half: str, d_model: int) -> Any:
        """What the stored table is; without one CTranslate2 makes the sinusoids of OpenNMT, from position 1 on."""
        table = self.weights.get(f"{half}/{TABLE}")
        if table is None:
            return Sinusoidal(first=1, closed=True)
        for interleaved in (False, True):
            if torch.allclose(table, sinusoids(len(table), d_model, interleaved), rtol=0.0, atol=1e-5):
                return Sinusoidal(interleaved)
        return Learned(len(table))

    def _scaled(self, half: str, d_model: int) -> bool:
        array = self.settings.get(f"{half}/scale_embeddings")
        if array is None:
            return True
        factor = (d_model**0.5 if array.item() else 1.0) if array.dtype == torch.int8 else array.item()
        if not any(abs(factor - known) < 1e-4 * known for known in (1.0, d_model**0.5)):
            raise UserError(f"{self.path}: embeddings × {factor:g}; regard computes × 1 and × sqrt({d_model})")
        return factor != 1.0

    # -------------------------------------------------------------------------------------------------- tokenizers

    def tokenizers(self) -> Tokenizers:
        """The vocabularies of both sides."""
        own = self._own_tokenizers()
        if own is not None:
            return own
        if all((self.folder / name).is_file() for name in (SOURCE, TARGET)):
            config = {f"{role}_token": name for role, name in self.names.items()} | {"tokenizer_class": "MarianTokenizer"}
            return spm_tokenizers(self.folder, self.ids("source"), self.ids("target"), config)
        before, after = ([self.names[role]] if self._adds(role) else [] for role in ("bos", "eos"))
        source = listed_tokenizer(self.tokens["source"], self.names, before, after)
        if self.tokens["source"] == self.tokens["target"]:
            return Tokenizers(source, source, shared=True)
        return Tokenizers(source, listed_tokenizer(self.tokens["target"], self.names, before, after), shared=False)

    def _own_tokenizers(self) -> Tokenizers | None:
        """Those of a tokenizer.json in the folder, if they number the tokens as the model does."""
        if not (self.folder / "tokenizer.json").is_file():
            return None
        found = Tokenizers.open(self.folder)
        for its, tokens in ((found.source, self.tokens["source"]), (found.target, self.tokens["target"])):
            if its.vocab_size > len(tokens) or [its.piece(n) for n in range(its.vocab_size)] != tokens[: its.vocab_size]:
                return None
        return found

    def _adds(self, role: str) -> bool:
        return bool(self.config.get(f"add_source_{role}", self.setting("", f"with_source_{role}", 0)))


def _listed(path: Path) -> list[str]:
    try:
        text = read_plain(path).decode("utf-8")  # not read_text, which takes a lone carriage return for the end of a line
        tokens = parsed(text) if path.suffix == ".json" else text.removesuffix("\n").split("\n")
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise UserError(f"{path}: should be a list of tokens")
    return tokens


def _longer(matrix: Tensor, value: float) -> Tensor:
    return torch.cat([matrix, torch.full((1, *matrix.shape[1:]), value)])


def _same(a: Tensor, b: Tensor) -> bool:
    return a is b or (a.shape == b.shape and torch.equal(a, b))


def _linear(theirs: tuple[str, ...], ours: str) -> list[Rule]:
    return [Rule(tuple(f"{name}/{kind}" for name in theirs), f"{ours}.{kind}", Joined()) for kind in ("weight", "bias")]


def _norm(theirs: str, ours: str) -> list[Rule]:
    return [Rule(f"{theirs}/{kind}", f"{ours}.{name}") for kind, name in (("gamma", "weight"), ("beta", "bias"))]


def _rules(gated: bool) -> Weights:
    rules = _linear(("decoder/projection",), "head.project")
    for half in ("encoder", "decoder"):
        theirs, ours = f"{half}/layer_#", f"{half}.blocks.#"
        first = ("linear_0", "linear_0_noact") if gated else ("linear_0",)
        rules += _linear((f"{theirs}/self_attention/linear_0",), f"{ours}.attention.qkv")
        rules += _linear((f"{theirs}/self_attention/linear_1",), f"{ours}.attention.output")
        rules += _norm(f"{theirs}/self_attention/layer_norm", f"{ours}.attention_norm")
        for number, name in enumerate(("q", "kv", "output") if half == "decoder" else ()):
            rules += _linear((f"{theirs}/attention/linear_{number}",), f"{ours}.cross.{name}")
        rules += _norm(f"{theirs}/attention/layer_norm", f"{ours}.cross_norm") if half == "decoder" else []
        rules += _linear(tuple(f"{theirs}/ffn/{name}" for name in first), f"{ours}.feedforward.expand")
        rules += _linear((f"{theirs}/ffn/linear_1",), f"{ours}.feedforward.contract")
        rules += _norm(f"{theirs}/ffn/layer_norm", f"{ours}.feedforward_norm")
        rules += _norm(f"{half}/layer_norm", f"{half}.last_norm")
        rules += _norm(f"{half}/layernorm_embedding", f"{half}.embed.norm")
        rules.append(Rule(f"{half}/embeddings/weight", f"{half}.embed.tokens.weight"))
        rules.append(Rule(f"{half}/{TABLE}", f"{half}.embed.position.table.weight"))
    return Weights(tuple(rules))
