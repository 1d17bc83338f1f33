"""Every test here that asks for `family` runs once for each set of tiny arguments of each architecture found."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import models
from regard.architecture import Description, Model

torch.set_num_threads(1)  # tiny tensors: threads only wait for each other

TINY: dict[str, list[dict[str, Any]]] = {
    file.stem: runpy.run_path(str(file))["TINY"] for file in sorted(Path(__file__).with_name("tiny").glob("*.py"))
}


@dataclass(frozen=True)
class Family:
    """One architecture with one set of arguments."""

    name: str
    arguments: dict[str, Any]

    def describe(self) -> Description:
        return models.find(self.name).describe(**self.arguments)

    def make(self, dtype: torch.dtype = torch.float64) -> Model:
        """A seeded model, ready to answer."""
        torch.manual_seed(1)
        model = self.describe().build()
        models.find(self.name).initialise(model)
        with torch.no_grad():  # away from zero and one, so that a forgotten bias or gain shows
            for weight in model.parameters():
                weight += 0.1 * torch.randn_like(weight)
        return model.to(dtype).eval()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "family" in metafunc.fixturenames:
        families = [Family(name, arguments) for name in models.names() for arguments in TINY.get(name, [])]
        ids = [f"{f.name}-{TINY[f.name].index(f.arguments)}" for f in families]
        metafunc.parametrize("family", families, ids=ids)


@pytest.fixture(scope="session")
def tiny() -> dict[str, list[dict[str, Any]]]:
    return TINY
