"""New words for trained models: all that was known stays, bit for bit where the arithmetic allows."""

from __future__ import annotations

import pytest
import torch

import regard
from regard.checkpoints.extend import extend, filled
from regard.checkpoints.fit import extended
from regard.errors import UserError
from regard.models import transformer
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
from regard.translator import Translator

ENTRIES = [("<2de>", ""), ("Paris", "la maison"), ("qqq", "")]


def separate(few_lines):
    source = train_tokenizer(few_lines[0], Plan("bpe", vocab_size=290))
    return Tokenizers(source, train_tokenizer(few_lines[1], Plan("unigram", vocab_size=330)), False)


@pytest.mark.parametrize("tied", ["all", "head", "no"])
def test_a_wider_folder_says_what_the_old_one_said(tmp_path, shared, few_lines, tied) -> None:
    tokenizers = shared if tied == "all" else separate(few_lines)
    sizes = {"num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2, "head_bias": tied == "no"}
    target = {} if tied == "all" else {"target_vocab_size": tokenizers.target.vocab_size}
    torch.manual_seed(1)
    model = transformer.describe(vocab_size=tokenizers.source.vocab_size, tied=tied, **target, **sizes).build().eval()
    for parameter in model.parameters():
        parameter.data.normal_(0.0, 0.4)
    Translator(model, tokenizers, regard.Search(num_beams=2, max_length=9), {"source": "en"}).save(tmp_path / "old")
    added = extend(tmp_path / "old", tmp_path / "new", ENTRIES)
    old, new = regard.load(tmp_path / "old"), regard.load(tmp_path / "new")
    assert (new.meta["source"], new.search, new.model.description.tied) == ("en", old.search, tied)
    size = tokenizers.target.vocab_size
    assert [one.number for one in added] == [size, size + 1, size + 2]
    assert added[1].pieces == [tokenizers.target.piece(n) for n in tokenizers.target.encode("la maison")]
    ids = torch.tensor([tokenizers.source.encode(few_lines[0][0])])
    outputs = torch.tensor([[2, *tokenizers.target.encode(few_lines[1][0])]])
    before, after = (its.model(ids, outputs).logits for its in (old, new))
    torch.testing.assert_close(after[..., :size], before, rtol=0, atol=1e-6)
    table = new.model.decoder.embed.tokens.weight
    torch.testing.assert_close(table[size + 1], table[tokenizers.target.encode("la maison")].mean(0))
    row = new.model.head.project.weight
    torch.testing.assert_close(row[size], row[tokenizers.target.encode("<2de>")].mean(0))
    if tied == "no":
        bias = new.model.head.project.bias
        torch.testing.assert_close(bias[size], bias[tokenizers.target.encode("<2de>")].mean())
    source = new.model.encoder.embed.tokens.weight
    first = tokenizers.source.vocab_size
    torch.testing.assert_close(source[first], source[tokenizers.source.encode("<2de>")].mean(0))
    assert new.tokenizer.encode("<2de> A dog")[0] == first
    assert len(new.translate(["<2de> A dog runs", ""])) == 2
    with pytest.raises(UserError, match="is not empty"):
        extend(tmp_path / "old", tmp_path / "new", ENTRIES)
    with pytest.raises(UserError, match="nothing to add"):
        extend(tmp_path / "old", tmp_path / "none", [])
    assert not (tmp_path / "none").exists()


def test_a_name_without_pieces_is_like_all_the_others() -> None:
    torch.manual_seed(1)
    sizes = {"num_layers": 1, "d_model": 8, "d_ff": 8, "num_heads": 2}
    old = transformer.describe(vocab_size=9, **sizes).build()
    new = filled(extended(old, 10, 10), {9: []}, {9: []})
    torch.testing.assert_close(new.encoder.embed.tokens.weight[9], old.encoder.embed.tokens.weight.mean(0))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "architecture"), [("gpt2", "GPT2LMHeadModel"), ("llama", "LlamaForCausalLM")])
def test_folders_of_others(kind, architecture, foreign, tmp_path) -> None:
    folder = foreign(kind, architecture)
    extend(folder, tmp_path / "new", [("covid", ""), ("<2de>", "")])
    old, new = regard.load(folder), regard.load(tmp_path / "new")
    ids = torch.tensor([old.prompt_ids("Hello world")])
    size = old.tokenizer.vocab_size
    before, after = (its.model(ids).logits[..., :size] for its in (old, new))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-5)
    assert size in new.tokenizer.encode("a covid test")


def test_a_model_of_images_has_no_words(tmp_path) -> None:
    from regard.checkpoints.folders import save_model
    from regard.models import vit

    sizes = {"num_layers": 1, "d_model": 8, "d_ff": 8, "num_heads": 2, "image_size": 4, "patch_size": 2, "channels": 1}
    save_model(tmp_path / "vit", vit.describe(classes=3, **sizes).build(), None, {"labels": ["a", "b", "c"]})
    with pytest.raises(UserError, match="reads no text"):
        extend(tmp_path / "vit", tmp_path / "new", [("a", "")])
