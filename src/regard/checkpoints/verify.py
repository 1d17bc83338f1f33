"""Whether a model folder gives in regard what it gives in `transformers`: layer by layer, logits, and what is written."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import regard
from regard.architecture import Model
from regard.checkpoints.folders import CONFIG, chosen_format, load_model, locate
from regard.checkpoints.reference import Case, Reference, Seen
from regard.checkpoints.tensors import read_json
from regard.decoding.options import Search
from regard.decoding.search import search
from regard.errors import UserError
from regard.files import write_json
from regard.layout import Layout

CERTIFICATE = "verify.json"
VERSION = 1
TOLERANCE = {"float32": 1e-5, "float64": 1e-6}
"""Most that a number may differ, in units of the layer's largest where that is above one. In double precision rotary
tables and the norms of many classes stay in single precision in `transformers`, so that 1e-6 is what all of them keep."""
LENGTHS = (9, 40, 100)
ROWS = 3
BEAMS = (1, 4)
WRITTEN = 20
"""Most tokens that are generated."""


@dataclass
class Layer:
    """The worst error of one layer over all cases, by number type, and the case in which it was."""

    name: str
    errors: dict[str, float] = field(default_factory=dict)
    cases: dict[str, str] = field(default_factory=dict)

    def note(self, kind: str, error: float, case: str) -> None:
        """Keep an error if it is the worst, or no number."""
        if kind not in self.errors or not error <= self.errors[kind]:
            self.errors[kind], self.cases[kind] = error, case

    @property
    def departs(self) -> str | None:
        """The number type in which the layer differs; None if it is equal."""
        return next((kind for kind, error in self.errors.items() if not error <= TOLERANCE[kind]), None)


@dataclass
class Report:
    """What was compared and found. layers: in the order of computation, the logits last. generated: rows that were equal
    and rows there were, by the way of search. notes: what was compared in another way than usual, and why."""

    folder: Path
    architecture: str
    reference: str
    cases: list[str] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    generated: dict[str, tuple[int, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def first(self) -> Layer | None:
        """The first layer that departs."""
        return next((layer for layer in self.layers if layer.departs), None)

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return self.first is None and all(same == rows for same, rows in self.generated.values())

    def json(self) -> dict[str, Any]:
        """The certificate."""
        first = self.first
        kind = None if first is None else first.departs
        departs = None if first is None or kind is None else {"layer": first.name, "dtype": kind, "case": first.cases[kind]}
        return {
            "version": VERSION,
            "equal": self.equal,
            "reference": "transformers",
            "architecture": self.architecture,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {
                "regard": regard.__version__,
                "transformers": self.reference,
                "torch": torch.__version__,
                "python": platform.python_version(),
            },
            "tolerance": TOLERANCE,
            "cases": self.cases,
            "layers": [{"layer": layer.name} | layer.errors for layer in self.layers],
            "generated": {name: {"rows": rows, "equal": same} for name, (same, rows) in self.generated.items()},
            "first_departure": departs,
            "notes": self.notes,
            "sha256": _hashes(self.folder),
        }

    def lines(self) -> list[str]:
        """For the terminal."""
        kinds = list(self.layers[0].errors)
        width = max(len(layer.name) for layer in self.layers) + 2
        result = [f"{self.folder}: {self.architecture} of transformers {self.reference}", ", ".join(self.cases), ""]
        result.append(" " * width + "  ".join(f"{kind:>8}" for kind in kinds))
        for layer in self.layers:
            kind = layer.departs
            mark = "" if kind is None else f"  differs ({layer.cases[kind]})"
            result.append(f"{layer.name:<{width}}" + "  ".join(f"{layer.errors[k]:8.1e}" for k in kinds) + mark)
        result += [f"{name}: {same} of {rows} texts have the same ids" for name, (same, rows) in self.generated.items()]
        result += [f"note: {note}" for note in self.notes]
        bounds = ", ".join(f"{TOLERANCE[kind]:g} in {kind}" for kind in kinds)
        first = self.first
        if first is not None:
            result.append(f"differs: {first.name} is the first layer that departs (more than {bounds})")
        elif self.equal:
            result.append(f"equal: no layer departs by more than {bounds}")
        else:
            result.append("differs: the layers are equal, but not what is generated")
        return result


def verify(folder: str | Path, kinds: Sequence[str] = ("float32", "float64"), lengths: Sequence[int] = LENGTHS) -> Report:
    """Compare a folder in regard and in transformers, on random inputs of these lengths, without and with padding.

    kinds: number types to compute in; texts are generated in the first of them. UserError: the folder does not load
    here or there, or no class of transformers computes it.
    """
    folder = locate(folder)
    config = read_json(folder / CONFIG)
    if config.get("model_type") == "regard":
        raise UserError(f"{folder}: no class of transformers computes this model, so there is nothing to hold it against")
    wrong = [kind for kind in kinds if kind not in TOLERANCE]
    if wrong or not kinds:
        raise UserError(f"number type {', '.join(wrong) or 'missing'}: choose from {', '.join(TOLERANCE)}")
    architecture = chosen_format(config, folder)[1].architecture
    model, description, meta = load_model(folder, dtype="float32")
    first = description.decoder if description.encoder is None else description.encoder
    offset = getattr(getattr(first.embed, "position", None), "offset", 0)
    reference = Reference(folder, architecture, offset)
    report = Report(folder, architecture, reference.version)
    if reference.made_up:
        report.notes.append(f"transformers made up weights that the folder lacks: {', '.join(reference.made_up)}")
    maker = _Cases(model, reference, meta["ids"])
    cases = list(maker.all(lengths))
    report.cases = [case.name for case in cases]
    for kind in kinds:
        model.to(getattr(torch, kind))
        reference.to(getattr(torch, kind))
        for case in cases:
            _compare(report, model, reference, case, kind)
    if model.decoder is not None and reference.writes and maker.writes:
        model.to(getattr(torch, kinds[0]))  # many classes take the softmax in single precision: double serves nothing
        reference.to(getattr(torch, kinds[0]))
        _generate(report, model, reference, maker)
    return report


class _Cases:
    """Makes the batches: seeded random ids, none of them special, or random pixels."""

    def __init__(self, model: Model, reference: Reference, ids: dict[str, int | None]) -> None:
        self.model, self.reference, self.pad, self.eos = model, reference, model.pad, ids.get("eos")
        self.both = model.encoder is not None and model.decoder is not None
        start = ids.get("bos")
        if self.both and start is None:
            raise UserError("config.json says no decoder_start_token_id, with which the decoder's input begins")
        self.start = -1 if start is None else start
        self.special = {i for i in (*ids.values(), self.pad) if i is not None}
        head = model.description.head
        self.pooled = getattr(head, "pool", "tokens") != "tokens"
        self.writes = hasattr(head, "vocab_size")
        self.random = torch.Generator().manual_seed(0)

    def all(self, lengths: Sequence[int]) -> Iterator[Case]:
        """Every length, and the longest that fits with padding on either side."""
        if self.reference.pixels:
            yield self.pixels()
            return
        bounds = [half.limit for half in (self.model.encoder, self.model.decoder) if half is not None]
        most = min([b for b in (*bounds, self.reference.limit) if b is not None], default=max(lengths))
        lengths = sorted({min(length, most) for length in lengths})
        for length in lengths:
            yield self.text(length, "no")
        if not self.pooled or self.pad is not None:
            for side in ("right", "left"):
                yield self.text(lengths[-1], side)

    def pixels(self) -> Case:
        """A batch of images of the size that the configuration names."""
        config = self.reference.model.config
        size = config.image_size if isinstance(config.image_size, (list, tuple)) else (config.image_size,) * 2
        pixels = torch.randn(ROWS, config.num_channels, *size, generator=self.random)
        layout = self.model.encoder.embed.place(pixels, None, "both")
        return Case(f"{size[0]}×{size[1]} pixels", pixels, layout)

    def text(self, length: int, side: str) -> Case:
        """Rows of several lengths up to `length`, padded on one side, or all of this length."""
        its = self.model.description
        rows = 1 if self.pooled and self.pad is None else ROWS
        inputs, layout = self._ids(its.decoder if its.encoder is None else its.encoder, length, side, rows)
        name = f"{length} tokens" + ("" if side == "no" else f" padded on the {side}")
        if self.model.encoder is None:  # all tokens are given: none is predicted in an order of its own
            return Case(name, inputs, replace(layout, mark=torch.zeros_like(layout.position)))
        if not self.both:
            return Case(name, inputs, layout)
        if self.pooled:  # such a class reads its source once more, a place further on
            outputs = torch.cat([torch.full((rows, 1), self.start), inputs[:, :-1]], 1)
            return Case(name, inputs, layout, outputs, layout)
        outputs, output_layout = self._ids(its.decoder, max(2, length - 4), "no" if side == "no" else "right", rows)
        outputs[:, 0] = self.start
        return Case(name, inputs, layout, outputs, output_layout)

    def _ids(self, its: Any, length: int, side: str, rows: int) -> tuple[Tensor, Layout]:
        usual = torch.tensor([i for i in range(its.embed.vocab_size) if i not in self.special])
        ids = usual[torch.randint(len(usual), (rows, length), generator=self.random)]
        counts = [length, length - length // 4, max(2, length // 8)][:rows] if side != "no" else [length] * rows
        for row, count in enumerate(counts):
            if self.eos is not None and not self.writes:  # some classes look for the end mark
                ids[row, count - 1] = self.eos
            if side == "left":
                ids[row] = ids[row].roll(length - count)
                ids[row, : length - count] = self.pad or 0
            ids[row, count if side == "right" else length :] = self.pad or 0
        if self.pad is None:
            return ids, Layout.padded(counts, left=side == "left")
        later = self.both and its is self.model.description.decoder
        half = self.model.decoder if later or self.model.encoder is None else self.model.encoder
        return ids, half.embed.place(ids, self.pad, "right" if later else "both")


def _ours(model: Model, case: Case) -> Seen:
    """What regard gives, seen by hooks on the embeddings, the blocks and the last norm of each half."""
    found, hooks = Seen(), []

    def keep(half: str, last: bool) -> Any:
        def hook(module: Any, arguments: Any, output: Any) -> None:
            state = output[0] if isinstance(output, tuple) else output
            if last:
                found.ends[half] = state
            else:
                found.states.setdefault(half, []).append(state)

        return hook

    try:
        for name in ("encoder", "decoder"):
            half = getattr(model, name)
            if half is None:
                continue
            name = name if case.outputs is not None else ""
            hooks += [m.register_forward_hook(keep(name, False)) for m in (half.embed, *half.blocks)]
            if getattr(half, "last_norm", None) is not None:
                hooks.append(half.last_norm.register_forward_hook(keep(name, True)))
        with torch.no_grad():
            answer = model(case.inputs, case.outputs, layout=case.layout, output_layout=case.output_layout)
    finally:
        for hook in hooks:
            hook.remove()
    found.logits = answer.logits
    return found


def _compare(report: Report, model: Model, reference: Reference, case: Case, kind: str) -> None:
    mine, wanted = _ours(model, case), reference.run(case)
    errors = _errors(mine, wanted, case)
    if not case.whole and any(not error <= TOLERANCE[kind] for error in errors.values()):
        alone = reference.alone(case)
        if any(not moved <= TOLERANCE[kind] for moved in _errors(alone, wanted, case).values()):
            errors = _errors(mine, alone, case)
            note = f"{case.name}, {kind}: padding moves what transformers itself gives; held against its rows one by one"
            if note not in report.notes:
                report.notes.append(note)
    known = {layer.name: layer for layer in report.layers}
    for name, error in errors.items():
        if name not in known:
            known[name] = Layer(name)
            report.layers.append(known[name])
        known[name].note(kind, error, case.name)


def _errors(mine: Seen, wanted: Seen, case: Case) -> dict[str, float]:
    """The error of each layer in the order of computation."""
    found: dict[str, float] = {}
    for half, states in wanted.states.items():
        its = mine.states[half]
        if len(its) != len(states):
            raise UserError(f"transformers has {len(states) - 1} blocks in its {half or 'model'}, regard {len(its) - 1}")
        layout = case.output_layout if half == "decoder" else case.layout
        assert layout is not None
        for number, (a, b) in enumerate(zip(its, states, strict=True)):
            name = f"{half} {'embeddings' if number == 0 else f'block {number - 1}'}".strip()
            found[name] = _error(a, b, layout)
            if number == len(its) - 1 and half in mine.ends:  # many classes give the normed state in its place
                found[name] = min(found[name], _error(mine.ends[half], b, layout))
    if mine.logits is not None and wanted.logits is not None:
        last = case.output_layout if case.output_layout is not None else case.layout
        found["logits"] = _error(mine.logits, wanted.logits, last)
    return found


def _error(a: Tensor, b: Tensor, layout: Layout) -> float:
    """The largest difference at real tokens, in units of b's largest number there if that is above one."""
    if a.shape != b.shape:
        raise UserError(f"a layer gives {'×'.join(map(str, a.shape))} in regard and {'×'.join(map(str, b.shape))} there")
    if b.dim() == 3:
        real = layout.real.expand(len(b), -1)
        a, b = a[real], b[real]
    return ((a - b).abs().max() / b.abs().max().clamp(min=1.0)).item()


def _generate(report: Report, model: Model, reference: Reference, cases: _Cases) -> None:
    """Greedy and beam search from the same rows."""
    size = model.description.head.vocab_size
    eos = size - 1 if cases.eos is None else cases.eos
    ids = {"pad": 0 if cases.pad is None else cases.pad, "eos": eos}
    if cases.both:
        ids["start"] = cases.start
    case = cases.text(12, "right" if cases.both else "left")
    for beams in BEAMS:
        options, mine = Search(num_beams=beams, max_length=WRITTEN), []
        try:
            mine = search(model, case.inputs, replace(case.layout, mark=None), options, ids.get("start", eos), eos)
        except UserError as error:
            report.notes.append(f"regard generates nothing: {error}")
        wanted = reference.write(case, beams, WRITTEN, ids)
        same = sum(answer[0].ids == row for answer, row in zip(mine, wanted))
        report.generated["greedy" if beams == 1 else f"beam {beams}"] = (same, len(wanted))


def _hashes(folder: Path) -> dict[str, str]:
    found = {}
    for file in sorted((folder / CONFIG, *folder.glob("model*.safetensors"))):
        with file.open("rb") as stream:
            found[file.name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found


def certify(report: Report) -> Path:
    """Write the certificate into the folder; gives its path. OSError: the folder cannot be written."""
    path = report.folder / CERTIFICATE
    write_json(path, report.json())
    return path
