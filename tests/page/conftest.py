"""A browser, models small enough to be trained here, and a server of them."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import uvicorn
from torch.nn.functional import cross_entropy

from regard.classifier import Classifier
from regard.decoding.options import Search
from regard.generator import Generator
from regard.models import bert, mixtral, transformer, vit
from regard.serving.engine import Engine
from regard.serving.limits import Limits
from regard.serving.served import Served
from regard.serving.server import configured, listen
from regard.serving.service import Service
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
from regard.translator import Translator

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]

NOUNS = {"dog": "chien", "cat": "chat", "boy": "garçon", "horse": "cheval"}
VERBS = {"runs": "court", "sleeps": "dort", "eats": "mange", "sings": "chante"}
WORDS = {"red": "rouge", "small": "petit", "white": "blanc"}
PAIRS = [
    (f"The {adjective} {noun} {verb} .", f"Le {of} {which} {does} .")
    for noun, of in NOUNS.items()
    for verb, does in VERBS.items()
    for adjective, which in WORDS.items()
]


@pytest.fixture(scope="module")
def translator() -> Translator:
    """Trained in a few seconds on the 48 sentences of a tiny language; words change places in it."""
    tokenizer = train_tokenizer([text for pair in PAIRS for text in pair] * 3, Plan("bpe", vocab_size=320))
    sizes: dict[str, Any] = {"num_layers": 2, "d_model": 32, "d_ff": 64, "num_heads": 4, "dropout": 0.0}
    torch.manual_seed(1)
    model = transformer.describe(vocab_size=tokenizer.vocab_size, **sizes).build()
    made = Translator(model, Tokenizers(tokenizer, tokenizer, True), Search(num_beams=3), {"source": "en", "target": "fr"})
    start, end = made.marks()
    sources = _padded([made.frame(tokenizer.encode(source))[0][0] for source, _ in PAIRS])
    targets = _padded([[start, *tokenizer.encode(target), end] for _, target in PAIRS])
    optimizer = torch.optim.Adam(model.parameters(), 4e-3)
    for _ in range(150):
        logits = model(sources, targets[:, :-1]).logits
        loss = cross_entropy(logits.flatten(0, 1), targets[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.02:
            break
    model.eval()
    return made


def _padded(rows: list[list[int]]) -> torch.Tensor:
    most = max(map(len, rows))
    return torch.tensor([row + [0] * (most - len(row)) for row in rows])


@pytest.fixture(scope="module")
def served(translator: Translator) -> list[Served]:
    """The translator, and models of other kinds with random weights."""
    tokenizers, vocabulary = translator.tokenizers, translator.tokenizer.vocab_size
    torch.manual_seed(2)
    experts = {"num_layers": 2, "d_model": 16, "d_ff": 24, "num_heads": 2, "experts": 3, "active": 2, "max_positions": 256}
    tales = Generator(mixtral.describe(vocab_size=vocabulary, **experts).build().eval(), tokenizers, {})
    sizes: dict[str, Any] = {"num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 2, "max_positions": 600}
    marks = bert.describe(vocab_size=vocabulary, head="class", classes=3, **sizes).build().eval()
    labels = {"labels": ["bad", "fair", "good"]}
    return [Served("en-fr", translator), Served("tales", tales), Served("marks", Classifier(marks, tokenizers, labels))]


@pytest.fixture(scope="module")
def seer() -> Classifier:
    """A model of images, of 16 patches."""
    torch.manual_seed(3)
    sizes = {"image_size": 16, "patch_size": 4, "channels": 1, "num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 2}
    settings = {"image_mean": [0.5], "image_std": [0.5], "size": {"height": 16, "width": 16}}
    model = vit.describe(**sizes, classes=3).build().eval()
    return Classifier(model, None, {"images": settings, "labels": ["cat", "dog", "owl"]})


@pytest.fixture(scope="module")
def base(served: list[Served]) -> Iterator[str]:
    """The address of a running server."""
    with Engine(served, Limits(grace=2.0)) as engine:
        listening = listen("127.0.0.1", 0)
        server = uvicorn.Server(configured(Service(engine)))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        server.should_exit = True
        thread.join(20)
        listening.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, as it is installed on this machine."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed, so no browser can be driven")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium is installed on this machine (Debian: apt-get install chromium)")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield opened
        opened.close()


class Watched:
    """A tab. requests: addresses that it asked for; errors: what its console complained of."""

    def __init__(self, browser: Any, **given: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1100, "height": 800}, **given)
        self.context.set_default_timeout(60_000)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: said.type == "error" and self.errors.append(said.text))

    def show(self, fragment: str, wait: str) -> Any:
        """Go to a state of the page that is open, and wait for what should be seen there."""
        self.page.evaluate("fragment => { location.hash = fragment }", fragment)
        return self.page.wait_for_selector(wait)

    def away(self, base: str) -> list[str]:
        """Addresses outside of `base`."""
        return [url for url in self.requests if not url.startswith((base, "data:", "blob:", "about:"))]


@pytest.fixture
def tab_of(browser: Any) -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def make(**given: Any) -> Watched:
        made.append(Watched(browser, **given))
        return made[-1]

    yield make
    for each in made:
        each.context.close()


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe-core."""
    path = ROOT / "page" / "node_modules" / "axe-core" / "axe.min.js"
    if not path.is_file():
        pytest.skip("page/node_modules/axe-core is not there (make page), so accessibility is not checked")
    return path.read_text(encoding="utf-8")
