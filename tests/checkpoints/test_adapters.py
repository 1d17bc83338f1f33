"""LoRA in peft's folders: what peft opens on the class of transformers gives our logits, and the other way round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from regard.checkpoints.adapters import load_adapter, merged, open_model, save_adapter
from regard.checkpoints.folders import load_model, save_model
from regard.checkpoints.fresh import load_with_head
from regard.errors import UserError
from regard.layers import lora
from regard.models import bart, bert, gpt2, llama, rnn

peft = pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")

SMALL: dict[str, Any] = {"vocab_size": 17, "num_layers": 2, "d_model": 8, "d_ff": 12, "num_heads": 2, "dropout": 0.0}
CASES: dict[str, tuple[Any, dict[str, Any], str, list[str]]] = {
    "llama": (llama, SMALL | {"num_kv_heads": 1}, "AutoModelForCausalLM", ["q", "v", "expand"]),
    "gpt2 slices": (gpt2, SMALL, "AutoModelForCausalLM", ["q", "v"]),
    "gpt2 whole": (gpt2, SMALL, "AutoModelForCausalLM", ["qkv", "output"]),
    "bert": (bert, SMALL | {"attention_dropout": 0.0}, "AutoModelForMaskedLM", ["q", "k", "v"]),
    "bart": (bart, SMALL | {"max_positions": 32}, "AutoModelForSeq2SeqLM", ["q", "v"]),
}
IDS = torch.randint(4, 17, (2, 9), generator=torch.Generator().manual_seed(0))


def built(case: str) -> tuple[nn.Module, str]:
    family, arguments, auto, targets = CASES[case]
    torch.manual_seed(0)
    model = family.describe(**arguments).build()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    lora.adapt(model, targets, 2, 6.0)
    with torch.no_grad():
        for layer in lora.adapted(model).values():
            for _, update in layer.parts:
                update.b.normal_(std=0.3)
    return model.eval(), auto


def ours(model: nn.Module) -> torch.Tensor:
    return (model(IDS, IDS) if model.encoder is not None and model.decoder is not None else model(IDS)).logits


def theirs(model: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        decoder = {"decoder_input_ids": IDS} if model.config.is_encoder_decoder else {}
        return model(input_ids=IDS, attention_mask=torch.ones_like(IDS), **decoder).logits


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_peft_opens_what_regard_wrote_and_gives_the_same(tmp_path: Path, case: str) -> None:
    model, auto = built(case)
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    plain = merged(model)
    with torch.no_grad():  # the folder beneath: the weights without their updates
        for name, layer in lora.adapted(model).items():
            plain.get_submodule(name).weight.copy_(layer.weight)
    save_model(base, plain)
    save_adapter(adapter, model, str(base))
    loaded = getattr(transformers, auto).from_pretrained(base).eval()
    before = theirs(loaded)
    wrapped = peft.PeftModel.from_pretrained(loaded, str(adapter)).eval()
    torch.testing.assert_close(theirs(wrapped), ours(model), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(before, ours(model), atol=1e-3)
    torch.testing.assert_close(theirs(wrapped.merge_and_unload()), ours(merged(model)), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_what_was_saved_is_loaded_again(tmp_path: Path, case: str) -> None:
    model, _ = built(case)
    save_adapter(tmp_path, model)
    other, _ = built(case)
    fresh = merged(other)
    with torch.no_grad():
        for name, layer in lora.adapted(model).items():
            fresh.get_submodule(name).weight.copy_(layer.weight)
    load_adapter(tmp_path, fresh)
    torch.testing.assert_close(ours(fresh.eval()), ours(model), rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_regard_opens_what_peft_wrote(tmp_path: Path) -> None:
    model, auto = built("llama")
    save_model(tmp_path / "base", merged(model))
    loaded = getattr(transformers, auto).from_pretrained(tmp_path / "base")
    config = peft.LoraConfig(r=3, lora_alpha=5, target_modules=["k_proj", "down_proj"], init_lora_weights=False)
    wrapped = peft.get_peft_model(loaded, config).eval()
    wrapped.save_pretrained(tmp_path / "adapter")
    fresh, _, _ = load_model(tmp_path / "base")
    found = load_adapter(tmp_path / "adapter", fresh)
    assert len(found) == 4
    torch.testing.assert_close(ours(fresh), theirs(wrapped), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_a_fresh_head_is_saved_whole_and_peft_puts_it_in_place(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = bert.describe(**SMALL | {"attention_dropout": 0.0, "head": "class", "classes": 3}).build().eval()
    save_model(tmp_path / "base", model)
    lora.adapt(model, ["q", "v"], 2, 4.0)
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.requires_grad_(True).normal_()
        for layer in lora.adapted(model).values():
            layer.parts[0][1].b.normal_()
    save_adapter(tmp_path / "adapter", model)
    told = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text(encoding="utf-8"))
    assert told["task_type"] == "SEQ_CLS"
    loaded = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "base").eval()
    wrapped = peft.PeftModel.from_pretrained(loaded, str(tmp_path / "adapter")).eval()
    torch.testing.assert_close(theirs(wrapped), ours(model), rtol=1e-4, atol=1e-4)
    fresh, _, _ = load_model(tmp_path / "base")
    load_adapter(tmp_path / "adapter", fresh)
    torch.testing.assert_close(ours(fresh), ours(model), rtol=1e-5, atol=1e-5)


def test_a_model_that_transformers_lacks_has_its_own_names(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = rnn.describe(vocab_size=13, d_model=8, attention="additive").build().eval()
    lora.adapt(model, ["project"], 2, 4.0) if model.description.tied == "no" else lora.adapt(model, ["query"], 2, 4.0)
    save_adapter(tmp_path, model)
    assert load_adapter(tmp_path, merged(model)) == list(lora.adapted(model))


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    model, _ = built("llama")
    with pytest.raises(UserError, match="no LoRA updates to save"):
        save_adapter(tmp_path / "x", merged(model))
    with pytest.raises(UserError, match="no folder of LoRA updates"):
        load_adapter(tmp_path / "y", model)
    save_adapter(tmp_path, model)
    other, _ = built("bert")
    with pytest.raises(UserError, match=r"this model has no place for model\.layers\.0"):
        load_adapter(tmp_path, merged(other))
    config = json.loads((tmp_path / "adapter_config.json").read_text(encoding="utf-8"))
    for change, said in (({"use_dora": True}, "use_dora is not known"), ({"peft_type": "IA3"}, "peft_type IA3")):
        (tmp_path / "adapter_config.json").write_text(json.dumps(config | change), encoding="utf-8")
        with pytest.raises(UserError, match=said):
            load_adapter(tmp_path, merged(model))


@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_updates_opens_on_the_model_that_it_names(tmp_path: Path, foreign: Any) -> None:
    """As peft opens it, tokenizer and all; beside the model, by an absolute path, or not at all."""
    import regard as package

    base = foreign("llama", "LlamaForCausalLM", num_key_value_heads=1)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(base)
    config = peft.LoraConfig(r=3, lora_alpha=5, target_modules=["k_proj", "down_proj"], init_lora_weights=False)
    wrapped = peft.get_peft_model(loaded, config).eval()
    wrapped.save_pretrained(tmp_path / "adapter")
    its = package.load(tmp_path / "adapter")
    torch.testing.assert_close(ours(its.model), theirs(wrapped), rtol=1e-4, atol=1e-4)
    assert not lora.adapted(its.model)
    assert its.tokenizer.hash == package.load(base).tokenizer.hash
    assert not torch.allclose(ours(its.model), ours(package.load(base).model), atol=1e-3)
    its.save(tmp_path / "whole")
    assert package.load(tmp_path / "whole").generate(["Hello"], max_length=4) == its.generate(["Hello"], max_length=4)
    path = tmp_path / "adapter" / "adapter_config.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(told | {"base_model_name_or_path": "../whole"}), encoding="utf-8")
    assert open_model(tmp_path / "adapter")[3].resolve() == (tmp_path / "whole").resolve()
    for name, said in ((None, "names no model"), ("../gone", r"these are updates of the model \.\./gone: .*no such folder")):
        path.write_text(json.dumps(told | {"base_model_name_or_path": name}), encoding="utf-8")
        with pytest.raises(UserError, match=said):
            package.load(tmp_path / "adapter")


def test_updates_with_a_head_of_their_own_open_too(tmp_path: Path, foreign: Any) -> None:
    base = foreign("bert", "BertForMaskedLM")
    model, _, _ = load_with_head(base, "class", 3)
    lora.adapt(model, ["q", "v"], 2, 4.0)
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.requires_grad_(True).normal_()
        for layer in lora.adapted(model).values():
            layer.parts[0][1].b.normal_()
    labels = ["bad", "fine", "good"]
    save_adapter(tmp_path, model.eval(), str(base), {"labels": labels, "scores": {}})
    found, _, meta, _ = open_model(tmp_path)
    torch.testing.assert_close(ours(found), ours(model), rtol=1e-5, atol=1e-5)
    assert meta["labels"] == labels
    (tmp_path / "regard.json").write_text('{"version": 9}', encoding="utf-8")
    with pytest.raises(UserError, match="version 9; this regard reads version 1"):
        open_model(tmp_path)
