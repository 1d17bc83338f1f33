"""COMET (Rei et al. 2020), a judge that was trained on people's judgements: used where its package and a checkpoint are."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import UserError

PACKAGE = "comet"


@dataclass(frozen=True)
class Comet:
    """checkpoint: a file, or a folder that holds checkpoints/model.ckpt. UserError: it, or the package unbabel-comet, is not
    there. Nothing is ever fetched."""

    checkpoint: str

    def __post_init__(self) -> None:
        if importlib.util.find_spec(PACKAGE) is None:
            raise UserError("COMET needs the package unbabel-comet, which is not installed: pip install unbabel-comet")
        if not self.file.is_file():
            raise UserError(
                f"{self.checkpoint}: there is no COMET checkpoint here (a .ckpt file, or checkpoints/model.ckpt)"
            )

    @property
    def file(self) -> Path:
        """The checkpoint's own file."""
        path = Path(self.checkpoint)
        return path / "checkpoints" / "model.ckpt" if path.is_dir() else path

    @property
    def signature(self) -> str:
        """What was asked."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            its = version("unbabel-comet")
        except PackageNotFoundError:
            its = "unknown"
        return f"checkpoint:{Path(self.checkpoint).name}|ref:first|version:{its}"

    def judge(self, sources: Sequence[str], texts: Sequence[str], references: Sequence[str]) -> list[float]:
        """A judgement of each translation, about 0 to 1."""
        comet: Any = importlib.import_module(PACKAGE)
        model = comet.load_from_checkpoint(str(self.file))
        data = [{"src": s, "mt": t, "ref": r} for s, t, r in zip(sources, texts, references, strict=True)]
        return [float(value) for value in model.predict(data, batch_size=16, gpus=0, progress_bar=False).scores]
