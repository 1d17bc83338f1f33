"""Vectors of texts, as transformers' last states give them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.errors import UserError

pytestmark = pytest.mark.filterwarnings("ignore")
TEXTS = ["Hello world, this is a test.", "fox", "", "The quick brown fox jumps over the lazy dog!", "a dog"]


@pytest.mark.parametrize(("kind", "name"), [("bert", "BertModel"), ("roberta", "RobertaModel")])
def test_means_of_last_states(kind: str, name: str, foreign: Any, tmp_path: Path) -> None:
    import transformers

    folder = foreign(kind, name)
    its = regard.load(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    found = its.embed(TEXTS)
    assert (found.shape, found.dtype) == ((5, 16), np.float32)
    for text, vector in zip(TEXTS, found):
        with torch.no_grad():
            want = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0).numpy()
        assert np.abs(vector - want).max() < 1e-5
    assert np.abs(its.embed(TEXTS, batch_tokens=1) - found).max() < 1e-5
    assert np.abs(np.stack(list(its.stream(iter(TEXTS), window=2))) - found).max() < 1e-5
    assert its.embed([]).shape == (0, 16)
    its.save(tmp_path)
    assert (regard.load(tmp_path).embed(TEXTS) == found).all()


def test_one_text_is_refused(foreign: Any) -> None:
    with pytest.raises(UserError, match="takes a list of texts"):
        regard.load(foreign("bert", "BertModel")).embed("fox")


def test_texts_that_lose_their_ends_are_logged_or_told(foreign: Any, caplog: pytest.LogCaptureFixture) -> None:
    its = regard.load(foreign("bert", "BertModel"))
    told: list[int] = []
    its.embed(["fox", "fox " * 90], tell=told.append)
    assert (told, caplog.messages) == ([1], [])
    its.embed(["fox", "fox " * 90])
    assert caplog.messages == ["1 of 2 texts are longer than the model reads; their ends were left out"]
