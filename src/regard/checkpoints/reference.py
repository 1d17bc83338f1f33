"""A model folder as `transformers` computes it: what `verify` holds regard against."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.layout import Layout

INSTALL = 'pip install "transformers>=5.0"'


@dataclass(frozen=True, eq=False)
class Case:
    """A batch to be answered. inputs: Int[B S], or pixels. outputs: Int[B T] of an encoder-decoder, its input ids."""

    name: str
    inputs: Tensor
    layout: Layout
    outputs: Tensor | None = None
    output_layout: Layout | None = None

    @property
    def whole(self) -> bool:
        """Whether nothing is padding."""
        return self.layout.whole and (self.output_layout is None or self.output_layout.whole)

    def row(self, number: int) -> Case:
        """One row without its padding."""
        ids, layout = _row(self.inputs, self.layout, number)
        if self.outputs is None or self.output_layout is None:
            return Case(self.name, ids, layout)
        return Case(self.name, ids, layout, *_row(self.outputs, self.output_layout, number))


def _real(layout: Layout, rows: int) -> Tensor:
    return layout.real.expand(rows, -1)


def _row(ids: Tensor, layout: Layout, number: int) -> tuple[Tensor, Layout]:
    kept = _real(layout, len(ids))[number]
    mark = None if layout.mark is None else layout.mark.expand(len(ids), -1)[number, kept][None]
    return ids[number, kept][None], replace(Layout.unpadded(int(kept.sum())), mark=mark)


@dataclass
class Seen:
    """What a model gave. states: of each half the embeddings Float[B T D] and what each block made of them; ends: of each
    half what the last norm made of the last, where there is one. logits: None from a model without a head."""

    states: dict[str, list[Tensor]] = field(default_factory=dict)
    ends: dict[str, Tensor] = field(default_factory=dict)
    logits: Tensor | None = None


@contextmanager
def quiet() -> Iterator[Any]:
    """transformers, without its progress bars and advice; UserError says how to install it."""
    try:
        import transformers
    except ImportError:
        raise UserError(f"the reference is the package transformers, which is not installed: {INSTALL}") from None
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield transformers
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


class Reference:
    """The class of transformers that a folder names, with the folder's weights.

    made_up: weights that the folder lacks and transformers filled at random. offset: what the class adds to positions.
    """

    def __init__(self, folder: Path, architecture: str, offset: int = 0) -> None:
        with quiet() as transformers:
            cls = getattr(transformers, architecture, None)
            if cls is None:
                raise UserError(f"{folder}: transformers {transformers.__version__} has no class {architecture}")
            plain: dict[str, Any] = {"dtype": torch.float32, "attn_implementation": "eager"}
            if hasattr(cls, "get_correct_experts_implementation"):  # grouped products want aligned widths
                plain["experts_implementation"] = "eager"
            try:
                self.model, told = cls.from_pretrained(folder, **plain, output_loading_info=True)
            except Exception as error:  # whatever it raises is its answer to this folder
                reason = (str(error).strip() or type(error).__name__).split("\n")[0]
                raise UserError(f"{folder}: transformers does not open it ({reason})") from error
        self.model.eval()
        self.made_up = sorted(told["missing_keys"])
        self.version: str = transformers.__version__
        self.offset = offset
        self.pixels = self.model.main_input_name == "pixel_values"
        self._takes = inspect.signature(self.model.forward).parameters

    @property
    def limit(self) -> int | None:
        """Most positions, where the configuration says."""
        limit = getattr(self.model.config, "max_position_embeddings", None)
        return limit if limit is not None and limit > 0 else None

    @property
    def writes(self) -> bool:
        """Whether it generates text."""
        return bool(self.model.can_generate())

    def to(self, kind: torch.dtype) -> None:
        """Change the number type."""
        self.model.to(kind)

    def run(self, case: Case) -> Seen:
        """Its answer to a batch."""
        with quiet(), torch.no_grad():
            answer = self.model(**self._arguments(case), output_hidden_states=True, return_dict=True)
        found = Seen(logits=next((answer[key] for key in ("logits", "prediction_logits") if key in answer), None))
        if case.outputs is not None:
            states = {"encoder": answer.encoder_hidden_states, "decoder": answer.decoder_hidden_states}
        else:
            states = {"": answer.hidden_states}
        found.states = {half: list(its) for half, its in states.items()}
        return found

    def alone(self, case: Case) -> Seen:
        """Its answers to each row without padding, in the places they have in the batch."""
        rows = [self.run(case.row(number)) for number in range(len(case.inputs))]
        found = Seen()
        last = case.layout if case.outputs is None or case.output_layout is None else case.output_layout
        for half in rows[0].states:
            layout = case.layout if half != "decoder" else last
            layers = zip(*(row.states[half] for row in rows), strict=True)
            found.states[half] = [_spread(layer, layout) for layer in layers]
        logits = [row.logits for row in rows if row.logits is not None]
        if logits:
            found.logits = torch.cat(logits) if logits[0].dim() == 2 else _spread(logits, last)
        return found

    def _arguments(self, case: Case) -> dict[str, Any]:
        if self.pixels:
            return {"pixel_values": case.inputs}
        rows = len(case.inputs)
        given = {"input_ids": case.inputs, "attention_mask": _real(case.layout, rows).long()}
        if "position_ids" in self._takes and not case.layout.whole:
            given["position_ids"] = case.layout.position.expand(rows, -1) + self.offset
        if case.outputs is not None and case.output_layout is not None:
            mask = _real(case.output_layout, rows).long()
            given |= {"decoder_input_ids": case.outputs, "decoder_attention_mask": mask}
        return given

    def write(self, case: Case, beams: int, tokens: int, ids: Mapping[str, int]) -> list[list[int]]:
        """What it writes after each row, without the end mark. ids: pad, eos and, of an encoder-decoder, start."""
        with quiet() as transformers, torch.no_grad():
            settings = {"num_beams": beams, "max_new_tokens": tokens, "do_sample": False, "length_penalty": 1.0}
            settings |= {"pad_token_id": ids["pad"], "eos_token_id": ids["eos"], "early_stopping": False}
            if "start" in ids:
                settings["decoder_start_token_id"] = ids["start"]
            self.model.generation_config = transformers.GenerationConfig(**settings)
            mask = _real(case.layout, len(case.inputs)).long()
            # a class that keeps states of tokens whose states change with every new one writes something else with them
            uncached = {"use_mems": False} if "use_mems" in self._takes else {}
            written = self.model.generate(case.inputs, attention_mask=mask, **uncached)
        begun = 1 if "start" in ids else case.inputs.shape[1]
        return [_before(row[begun:], ids["eos"]) for row in written.tolist()]


def _before(ids: Sequence[int], eos: int) -> list[int]:
    """Up to the end mark; what stands after it is padding."""
    return list(ids[: ids.index(eos)]) if eos in ids else list(ids)


def _spread(rows: Sequence[Tensor], layout: Layout) -> Tensor:
    """Float[1 t D] of each row -> Float[B T D], zeros at padding."""
    real = _real(layout, len(rows))
    result = rows[0].new_zeros(*real.shape, rows[0].shape[-1])
    for place, kept, row in zip(result, real, rows, strict=True):
        place[kept] = row[0]
    return result
