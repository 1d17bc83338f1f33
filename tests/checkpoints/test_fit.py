"""Whether a model and its tokenizers fit each other."""

from __future__ import annotations

import json

import pytest
import torch

from regard.checkpoints.fit import extended
from regard.checkpoints.folders import save_model
from regard.errors import UserError
from regard.models import bert
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
from regard.translator import load


def test_ckpt_09_vocabulary_is_too_small(tmp_path, model_for, few_lines):
    """S-CKPT-09: sizes of both and the names of the entries the model lacks; extend=True adds them."""
    more = train_tokenizer(few_lines[0], Plan("words", vocab_size=60), extra=["<2fr>", "<2de>", "<2zh>"])
    full = Tokenizers(more, more, True)
    small = model_for(full, vocab_size=more.vocab_size - 3)
    size = more.vocab_size
    words = rf"the model has {size - 3} source entries, the tokenizer {size}; the model lacks '<2fr>', '<2de>', '<2zh>'"
    with pytest.raises(UserError, match=words) as error:
        save_model(tmp_path / "refused", small, full)
    assert "extend=True" in str(error.value)
    assert not (tmp_path / "refused").exists()
    save_model(tmp_path / "model", small, meta={"ids": {"bos": 2, "eos": 3}})
    full.save(tmp_path / "model")
    with pytest.raises(UserError, match=words):
        load(tmp_path / "model")
    wide = load(tmp_path / "model", extend=True)
    table, old = wide.model.encoder.embed.tokens.weight, small.encoder.embed.tokens.weight
    assert table.shape[0] == size == wide.model.description.head.vocab_size
    assert table[:-3].equal(old)
    assert torch.allclose(table[-3:], old.mean(0).expand(3, -1))
    assert len(wide.translate(["<2fr> A dog"])) == 1
    wide.save(tmp_path / "wide")
    assert load(tmp_path / "wide").model.description == wide.model.description


def test_ckpt_12_ids_disagree(tmp_path, shared, translator_for):
    """S-CKPT-12: pad 1 and end 0 in the configuration against pad 0 and end 3 in the tokenizer: both are named."""
    translator_for(shared).save(tmp_path)
    for name in ("config.json", "regard.json"):
        document = json.loads((tmp_path / name).read_text(encoding="utf-8"))
        if name == "config.json":
            document |= {"pad_token_id": 1, "eos_token_id": 0}
        else:
            document["description"]["pad"] = 1
        (tmp_path / name).write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(UserError) as error:
        load(tmp_path)
    assert "pad is 1 in the model and 0 in the tokenizer; eos is 0 in the model and 3 in the tokenizer" in str(error.value)


@pytest.mark.parametrize("arguments", [{}, {"tied": "no"}, {"head": "class", "classes": 3}])
def test_an_encoder_alone_is_extended_too(arguments):
    """A masked head grows with its embedding, tied or not; a head of classes stays as it is."""
    torch.manual_seed(1)
    sizes = {"vocab_size": 13, "num_layers": 1, "d_model": 8, "d_ff": 8, "num_heads": 2, "max_positions": 9}
    old = bert.describe(**sizes, **arguments).build().eval()
    new, ids = extended(old, 16, 0), torch.tensor([[3, 4, 5]])
    assert new.description == bert.describe(**sizes | {"vocab_size": 16}, **arguments)
    before, after = old(ids).logits, new(ids).logits
    torch.testing.assert_close(after[..., : before.shape[-1]], before)
    assert after.shape[-1] == (3 if arguments.get("classes") else 16)
