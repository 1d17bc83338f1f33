"""What may stand at a mask, as transformers predicts it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import regard
from regard.errors import UserError

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(("kind", "name"), [("bert", "BertForMaskedLM"), ("roberta", "RobertaForMaskedLM")])
def test_masks_are_filled_as_in_transformers(kind: str, name: str, foreign: Any) -> None:
    import transformers

    folder = foreign(kind, name)
    its = regard.load(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    assert its.mask == tokenizer.mask_token
    for text in (f"The quick {its.mask} jumps", f"{its.mask} world {its.mask}, fox"):
        batch = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            logits = model(**batch).logits[0]
        places = (batch["input_ids"][0] == tokenizer.mask_token_id).nonzero()[:, 0].tolist()
        found = its.fill(text, top=3)
        for place, best in zip(places, found if len(places) > 1 else [found], strict=True):
            chances, ids = logits[place].softmax(-1).topk(3)
            assert [one.token for one in best] == tokenizer.convert_ids_to_tokens(ids.tolist())
            assert [one.probability for one in best] == pytest.approx(chances.tolist(), abs=1e-5)
            assert best[0].json()["text"] == best[0].text


def test_mistakes(foreign: Any) -> None:
    its = regard.load(foreign("bert", "BertForMaskedLM"))
    with pytest.raises(UserError, match=r"the text has no mask: write \[MASK\]"):
        its.fill("The quick fox")
    with pytest.raises(UserError, match="a mask is cut off"):
        its.fill("fox " * 100 + "[MASK]")
