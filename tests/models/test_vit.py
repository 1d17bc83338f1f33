"""The vision Transformer against transformers' ViTForImageClassification and ViTModel."""

from __future__ import annotations

import json

import pytest
import torch

from regard.architecture import Targets, from_json, to_json
from regard.checkpoints.folders import load_model, save_model
from regard.checkpoints.fresh import load_with_head
from regard.models import vit

transformers = pytest.importorskip("transformers")

SHAPE = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 24}
SHAPE |= {"image_size": 24, "patch_size": 4}
OURS = {"image_size": 24, "patch_size": 4, "d_model": 16, "num_layers": 3, "num_heads": 4, "d_ff": 24}
CLASSES = {
    "class": ("ViTForImageClassification", "AutoModelForImageClassification"),
    "vector": ("ViTModel", "AutoModel"),
}
PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-10)]


@pytest.fixture
def theirs(randomised):
    """theirs(class name, folder or None, **configuration) -> a tiny random model of transformers, saved if asked."""

    def make(name, folder=None, **config):
        model = randomised(getattr(transformers, name)(transformers.ViTConfig(**(SHAPE | config))))
        if folder is not None:
            model.save_pretrained(folder)
        return model

    return make


@pytest.fixture
def ours(randomised):
    """ours(**arguments) -> a tiny random model."""
    return lambda **arguments: randomised(vit.describe(**OURS | arguments).build())


def images(height=24, width=24, channels=3):
    return torch.randn(3, channels, height, width, generator=torch.Generator().manual_seed(4))


@pytest.fixture
def check(hidden_states, recorded):
    """check(mine, other, pixels, dtype, tolerance): logits or vectors, and the states after embeddings, blocks and the
    last norm are equal."""

    def run(mine, other, pixels, dtype=torch.float32, tolerance=1e-5):
        mine, other, pixels = mine.to(dtype), other.to(dtype), pixels.to(dtype)
        other.set_attn_implementation("sdpa")  # the eager one weighs in single precision
        body = getattr(other, "vit", other)
        resized = pixels.shape[2:] != tuple(body.embeddings.image_size)
        modules = [body.embeddings, *body.layers, body.layernorm]
        want, wanted = recorded(modules, lambda: other(pixels, interpolate_pos_encoding=resized))
        answer, states = hidden_states(mine, pixels)
        assert len(states["encoder"]) == len(wanted) == 5
        for a, b in zip(states["encoder"], wanted, strict=True):
            assert (a - b).abs().max() < tolerance
        if answer.vectors is not None:
            assert (answer.vectors - want.last_hidden_state[:, 0]).abs().max() < tolerance
        else:
            assert (answer.logits - want.logits).abs().max() < tolerance
            assert want.logits.std() > 0.1

    return run


@pytest.mark.parametrize("head", CLASSES)
def test_transformers_folder_opens_here(tmp_path, theirs, check, head):
    config = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu_new", "num_labels": 5}
    other = theirs(CLASSES[head][0], tmp_path, **config)
    model, description, _ = load_model(tmp_path)
    told = vit.describe(**OURS, dropout=0.2, attention_dropout=0.1, activation="gelu_tanh", head=head, classes=5)
    assert description == told
    for dtype, tolerance in PRECISIONS:
        check(model, other, images(), dtype, tolerance)


@pytest.mark.parametrize("head", CLASSES)
def test_our_folder_opens_there(tmp_path, ours, check, head):
    model = ours(head=head, classes=5, channels=1)
    save_model(tmp_path, model, meta={"labels": list("abcde")} if head == "class" else None)
    name, auto = CLASSES[head]
    other, info = getattr(transformers, auto).from_pretrained(tmp_path, output_loading_info=True)
    assert type(other).__name__ == name
    assert set(info["missing_keys"]) == ({"pooler.dense.weight", "pooler.dense.bias"} if head == "vector" else set())
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]
    if head == "class":
        assert other.config.id2label == dict(enumerate("abcde"))
    for dtype, tolerance in PRECISIONS:
        check(model, other, images(channels=1), dtype, tolerance)
    assert load_model(tmp_path)[1] == model.description


@pytest.mark.parametrize("size", [(24, 48), (36, 12), (48, 48), (27, 22)])
def test_pos_04_other_shapes_of_images(tmp_path, theirs, check, size):
    """S-POS-04 for the whole model: taller, wider, larger images, and ones that are no multiple of a patch."""
    other = theirs("ViTForImageClassification", tmp_path)
    model, _, _ = load_model(tmp_path)
    check(model, other, images(*size))


@pytest.mark.parametrize("config", [{"qkv_bias": False}, {"layer_norm_eps": 1e-3}, {"image_size": [24, 16]}])
def test_settings_are_read(tmp_path, theirs, check, config):
    """S-CKPT-05 among them: every norm has the configured epsilon."""
    other = theirs("ViTForImageClassification", tmp_path, **config)
    model, description, _ = load_model(tmp_path)
    assert {m.eps for m in model.modules() if isinstance(m, torch.nn.LayerNorm)} == {config.get("layer_norm_eps", 1e-12)}
    pixels = images(*config.get("image_size", (24, 24)))
    check(model, other, pixels)
    save_model(tmp_path / "again", model)
    check(model, transformers.ViTForImageClassification.from_pretrained(tmp_path / "again"), pixels)
    assert from_json(json.loads(json.dumps(to_json(description)))) == description


def test_a_pretrained_body_takes_a_new_head(tmp_path, theirs):
    """ViTModel's folder, its pooler left aside, fine-tuned to other classes."""
    theirs("ViTModel", tmp_path)
    body, _, _ = load_model(tmp_path)
    model, fresh, _ = load_with_head(tmp_path, "class", 7)
    assert fresh == ["head.project.weight", "head.project.bias"]
    assert model(images()).logits.shape == (3, 7)
    assert torch.equal(model.encode(images()).states, body.encode(images()).states)


def test_each_image_by_itself(ours):
    model, pixels = ours(classes=4).double(), images()
    together = model(pixels).logits
    for row in range(3):
        torch.testing.assert_close(model(pixels[row : row + 1]).logits[0], together[row], rtol=0, atol=1e-10)


def test_the_loss_is_that_of_the_logits_and_reaches_every_weight(ours):
    model, ids = ours(classes=4).double(), torch.tensor([1, 3, 0])
    answer = model(images(), targets=Targets(ids))
    want = torch.nn.functional.cross_entropy(model(images()).logits, ids, reduction="sum")
    torch.testing.assert_close(answer.loss_sum, want)
    assert answer.count == 3
    answer.loss_sum.backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name


def test_a_small_one_learns_where_a_spot_is():
    """Four classes: the quarter of an 8×8 image that is bright. Nearly all are right after 30 small steps."""
    torch.manual_seed(0)
    model = vit.describe(image_size=8, patch_size=2, channels=1, num_layers=1, d_model=32, d_ff=64, num_heads=4, classes=4)
    model = model.build()
    vit.initialise(model)

    def draw(count):
        ids = torch.randint(0, 4, (count,))
        pixels = 0.3 * torch.randn(count, 1, 8, 8)
        for row, quarter in enumerate(ids.tolist()):
            top, left = 4 * (quarter // 2), 4 * (quarter % 2)
            pixels[row, 0, top : top + 4, left : left + 4] += 1.0
        return pixels, ids

    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(30):
        pixels, ids = draw(32)
        answer = model(pixels, targets=Targets(ids))
        (answer.loss_sum / answer.count).backward()
        optimizer.step()
        optimizer.zero_grad()
    pixels, ids = draw(200)
    assert (model.eval()(pixels).logits.argmax(-1) == ids).double().mean() > 0.95


@pytest.mark.parametrize(
    "arguments",
    [{}, {"image_size": (24, 32), "patch_size": (4, 8)}, {"head": "vector"}, {"pool": "mean", "bias": False, "eps": 1e-6}],
)
def test_arguments_are_read_off_a_description(arguments):
    description = vit.describe(**OURS | arguments)
    found = vit.arguments(description)
    assert found is not None
    assert vit.describe(**found) == description


@pytest.mark.parametrize(
    ("arguments", "words"), [({"head": "tokens"}, "'class' or 'vector'"), ({"classes": None}, "needs the number")]
)
def test_wrong_heads_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        vit.describe(**OURS | arguments)


def test_published_sizes():
    """Parameters as published: 86 M, 307 M, 632 M (Dosovitskiy et al.), 5 M and 22 M (Touvron et al.)."""
    for name, millions in {"tiny": 5.7, "small": 22, "base": 86.5, "large": 304, "huge": 632}.items():
        with torch.device("meta"):
            model = vit.describe(**vit.SIZES[name]).build()
        assert sum(tensor.numel() for tensor in model.parameters()) / 1e6 == pytest.approx(millions, rel=0.02)


@pytest.mark.parametrize(("name", "side", "tokens"), [("mnist", 28, 50), ("digits", 8, 17)])
def test_sizes_for_small_grey_images(name, side, tokens):
    model = vit.describe(**vit.SIZES[name] | {"classes": 10}).build()
    pixels = torch.rand(2, 1, side, side)
    assert model.encode(pixels).states.shape[1] == tokens
    assert model(pixels).logits.shape == (2, 10)
