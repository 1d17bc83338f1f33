"""Labels of texts, pairs, tokens and images, as transformers gives them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.classifier import Classification, TokenLabel
from regard.errors import UserError

pytestmark = pytest.mark.filterwarnings("ignore")
TEXTS = ["Hello world, this is a test.", "fox", "", "The quick brown fox jumps over the lazy dog!"]
PAIRS = [("Hello world", "a dog"), ("fox", "fox fox fox"), ("a", "")]


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2"])
def test_texts_and_pairs_equal_transformers(kind: str, foreign: Any) -> None:
    import transformers

    name = {"bert": "Bert", "roberta": "Roberta", "gpt2": "GPT2"}[kind]
    settings = {"id2label": ("no", "yes", "so")} if kind != "gpt2" else {"num_labels": 3}
    if "id2label" in settings:
        settings = {"num_labels": 3}
    folder = foreign(kind, f"{name}ForSequenceClassification", **settings)
    its = regard.load(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = [text for text in TEXTS if text or kind != "gpt2"] + ([] if kind == "gpt2" else [p for p in PAIRS if p[1]])
    found = its.classify(inputs, details=True)
    for one, got in zip(inputs, found):
        batch = tokenizer(*([one] if isinstance(one, str) else one), return_tensors="pt")
        with torch.no_grad():
            want = model(**batch).logits[0].softmax(-1).tolist()
        assert got.text == one
        assert [got.probabilities[label] for label in its.labels] == pytest.approx(want, abs=1e-5)
        assert got.label == its.labels[int(np.argmax(want))]
        assert got.probability == max(got.probabilities.values())
    assert its.classify(inputs) == [one.label for one in found]
    assert list(its.stream(iter(inputs), window=2)) == [one.label for one in found]
    assert json.loads(json.dumps(found[0].json()))["label"] == found[0].label


def test_names_of_labels_are_kept(foreign: Any, tmp_path: Path) -> None:
    its = regard.load(foreign("bert", "BertForSequenceClassification", num_labels=3))
    assert its.labels == ["LABEL_0", "LABEL_1", "LABEL_2"]
    its.meta["labels"] = ["no", "so", "yes"]
    its.save(tmp_path)
    again = regard.load(tmp_path)
    assert again.labels == ["no", "so", "yes"]
    its.meta["labels"] = ["no", "yes"]
    with pytest.raises(UserError, match="names 2 labels, the model has 3 classes"):
        type(its)(its.model, its.tokenizers, its.meta)


def test_tokens_stand_where_they_stand(foreign: Any) -> None:
    import transformers

    folder = foreign("bert", "BertForTokenClassification", num_labels=4)
    its = regard.load(folder)
    model = transformers.AutoModelForTokenClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    found = its.classify(TEXTS, details=True)
    for text, one in zip(TEXTS, found):
        batch = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = batch.pop("offset_mapping")[0].tolist()[1:-1]
        with torch.no_grad():
            want = model(**batch).logits[0, 1:-1].softmax(-1)
        assert [[token.start, token.end] for token in one.tokens] == offsets
        assert [token.text for token in one.tokens] == [text[a:b] for a, b in offsets]
        assert [token.label for token in one.tokens] == [its.labels[n] for n in want.argmax(-1).tolist()]
        assert [token.probability for token in one.tokens] == pytest.approx(want.amax(-1).tolist(), abs=1e-5)
        assert all(isinstance(token, TokenLabel) for token in one.tokens)
    assert its.classify(TEXTS) == [[token.label for token in one.tokens] for one in found]
    with pytest.raises(UserError, match="input 2: a model that labels tokens takes texts"):
        its.classify(["a", ("b", "c")])


def test_long_texts_lose_their_end_and_say_so(foreign: Any) -> None:
    its = regard.load(foreign("bert", "BertForTokenClassification", num_labels=4))
    (one,) = its.classify(["dog " * 200], details=True)
    assert (one.truncated, len(one.tokens)) == (True, 62)
    texts = regard.load(foreign("bert", "BertForSequenceClassification", num_labels=3))
    found = texts.classify(["dog " * 200, ("dog", "fox " * 200), "dog"], details=True)
    assert [each.truncated for each in found] == [True, True, False]
    assert isinstance(found[0], Classification)


def test_images_equal_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    image = pytest.importorskip("PIL.Image")
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=8
    )
    config.id2label = {0: "cat", 1: "dog", 2: "fox"}
    torch.manual_seed(0)
    model = transformers.ViTForImageClassification(config).eval()
    model.save_pretrained(tmp_path / "its")
    processor = transformers.ViTImageProcessorPil(size={"height": 32, "width": 32})
    processor.save_pretrained(tmp_path / "its")
    pictures = []
    for number, shape in enumerate(((40, 50, 3), (32, 32, 3), (20, 64))):
        values = np.random.default_rng(number).integers(0, 256, shape, dtype=np.uint8)
        pictures.append(image.fromarray(values))
        pictures[-1].save(tmp_path / f"{number}.png")
    its = regard.load(tmp_path / "its")
    found = its.classify([tmp_path / f"{number}.png" for number in range(3)], details=True)
    with torch.no_grad():
        pixels = processor([one.convert("RGB") for one in pictures], return_tensors="pt").pixel_values
        want = model(pixels).logits.softmax(-1)
    for one, chances in zip(found, want.tolist()):
        assert [one.probabilities[name] for name in ("cat", "dog", "fox")] == pytest.approx(chances, abs=1e-5)
    assert its.classify(pictures) == [one.label for one in found]
    its.save(tmp_path / "again")
    assert regard.load(tmp_path / "again").classify(pictures) == [one.label for one in found]
    with pytest.raises(UserError, match="does not read text"):
        _ = its.tokenizers


def test_mistakes(foreign: Any) -> None:
    its = regard.load(foreign("bert", "BertForSequenceClassification", num_labels=3))
    with pytest.raises(UserError, match="takes a list of texts"):
        its.classify("fox")
    with pytest.raises(UserError, match="input 2 should be a text or a pair"):
        its.classify(["a", ("b", "c", "d")])


def test_classes_of_one_name_count_together(foreign: Any) -> None:
    """ImageNet has two cranes: the less likely one once overwrote the other's probability."""
    its = regard.load(foreign("bert", "BertForSequenceClassification", num_labels=3))
    plain = its.classify(["fox"], details=True)[0].probabilities
    its.labels = ["crane", "crane", "dog"]
    one = its.classify(["fox"], details=True)[0]
    assert one.probabilities.keys() == {"crane", "dog"}
    assert one.probabilities["crane"] == pytest.approx(plain["LABEL_0"] + plain["LABEL_1"])
    assert sum(one.probabilities.values()) == pytest.approx(1.0)
    assert one.probability == one.probabilities[one.label] == max(one.probabilities.values())


def test_texts_that_lose_their_ends_are_logged(foreign: Any, caplog: pytest.LogCaptureFixture) -> None:
    its = regard.load(foreign("bert", "BertForSequenceClassification", num_labels=3))
    its.classify(["fox " * 90, "fox"], details=True)
    assert not caplog.messages
    its.classify(["fox " * 90, "fox"])
    assert caplog.messages == ["1 of 2 texts are longer than the model reads; their ends were left out"]
