"""Tiny models with random weights, and a server of them that the tests talk to."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import torch
import uvicorn

from regard.classifier import Classifier
from regard.decoding.options import Search
from regard.embedder import Embedder
from regard.generator import Generator
from regard.models import bert, gpt2, transformer
from regard.serving.engine import Engine
from regard.serving.limits import Limits
from regard.serving.served import Served
from regard.serving.server import application, configured, listen
from regard.serving.service import Service
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
from regard.translator import Translator

LINES = ["A dog runs in the park .", "Two men play football , and a girl looks on .", "The red house is near the sea ."] * 3
FRENCH = ["Un chien court dans le parc .", "Deux hommes jouent au football .", "La maison rouge est près de la mer ."] * 3
TEXTS = ["A dog plays near the red sea .", "Two men .", "The girl runs in the house , and the men look on .", "A red dog ."]
TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
)


def randomised(model: Any, seed: int, spread: float = 0.4) -> Any:
    """Weights large enough that answers differ."""
    torch.manual_seed(seed)
    for name, tensor in model.named_parameters():
        if not name.endswith("norm.weight"):
            tensor.data.normal_(0.0, spread)
    return model.eval()


@pytest.fixture(scope="session")
def tokenizers() -> Tokenizers:
    made = train_tokenizer(LINES + FRENCH, Plan("bpe", vocab_size=300))
    return Tokenizers(made, made, True)


def translator_of(tokenizers: Tokenizers, seed: int = 1, **more: Any) -> Translator:
    sizes: dict[str, Any] = {"num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2}
    model = transformer.describe(vocab_size=tokenizers.source.vocab_size, **sizes | more).build()
    search = Search(num_beams=2, max_length=9)
    return Translator(randomised(model, seed), tokenizers, search, {"source": "en", "target": "fr"})


@pytest.fixture(scope="session")
def translator(tokenizers: Tokenizers) -> Translator:
    return translator_of(tokenizers)


@pytest.fixture
def slow(tokenizers: Tokenizers) -> Translator:
    """A translator that always writes as many tokens as it may."""
    made = translator_of(tokenizers, max_positions=4096, positions="learned")
    made.model.head.project.weight.data[3] = 0.0
    return made


@pytest.fixture
def texts() -> list[str]:
    return list(TEXTS)


@pytest.fixture(scope="session")
def generator(tokenizers: Tokenizers) -> Generator:
    tokenizer = train_tokenizer(LINES + FRENCH, Plan("bpe", vocab_size=300))
    tokenizer.config = {"chat_template": TEMPLATE}
    sizes: dict[str, Any] = {"num_layers": 1, "d_model": 16, "num_heads": 2, "max_positions": 128}
    model = gpt2.describe(vocab_size=tokenizer.vocab_size, **sizes).build()
    return Generator(randomised(model, 2), Tokenizers(tokenizer, tokenizer, True), {})


@pytest.fixture(scope="session")
def embedder(tokenizers: Tokenizers) -> Embedder:
    sizes: dict[str, Any] = {"num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2, "max_positions": 40}
    model = bert.describe(vocab_size=tokenizers.source.vocab_size, head="vector", **sizes).build()
    return Embedder(randomised(model, 3), tokenizers, {})


@pytest.fixture(scope="session")
def classifier(tokenizers: Tokenizers) -> Classifier:
    sizes: dict[str, Any] = {"num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2, "max_positions": 40}
    model = bert.describe(vocab_size=tokenizers.source.vocab_size, head="class", classes=3, **sizes).build()
    return Classifier(randomised(model, 4), tokenizers, {"labels": ["bad", "fair", "good"]})


@pytest.fixture(scope="session")
def models(translator: Any, generator: Any, embedder: Any, classifier: Any) -> list[Served]:
    return [
        Served("en-fr", translator),
        Served("tales", generator),
        Served("vectors", embedder),
        Served("marks", classifier),
    ]


@pytest.fixture
def engine(models: list[Served]) -> Iterator[Engine]:
    with Engine(models, Limits(grace=5.0)) as made:
        yield made


class Client:
    """Talks to an application in this process, each call in an event loop of its own."""

    def __init__(self, app: Any, base: str = "http://127.0.0.1") -> None:
        self.app, self.base = app, base

    def __call__(self, method: str, path: str, **given: Any) -> httpx.Response:
        return self.many([(method, path, given)])[0]

    def get(self, path: str, **given: Any) -> httpx.Response:
        return self("GET", path, **given)

    def post(self, path: str, body: Any = None, **given: Any) -> httpx.Response:
        return self("POST", path, **({"json": body} if body is not None else {}), **given)

    def many(self, calls: list[tuple[str, str, dict[str, Any]]]) -> list[httpx.Response]:
        """All at the same time."""

        async def run() -> list[httpx.Response]:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url=self.base, timeout=60) as client:
                return await asyncio.gather(*(client.request(method, path, **more) for method, path, more in calls))

        return asyncio.run(run())


@pytest.fixture(scope="module")
def client(models: list[Served]) -> Iterator[Client]:
    """One server for all tests of a file."""
    with Engine(models, Limits(grace=5.0)) as engine:
        yield Client(application(Service(engine)))


@pytest.fixture
def client_of(models: list[Served]) -> Iterator[Callable[..., Client]]:
    """A client of a server with other settings: keys and hosts of a Service, the rest Limits."""
    engines = []

    def make(loaded: list[Served] | None = None, *, patience: float = 30.0, **given: Any) -> Client:
        service = {name: given.pop(name) for name in ("keys", "origins", "hosts") if name in given}
        engine = Engine(models if loaded is None else loaded, Limits(**{"grace": 5.0, **given}))
        engines.append(engine)
        return Client(application(Service(engine, **service), patience))

    yield make
    for engine in engines:
        engine.close()


class Running:
    """A real server on a free port of this machine."""

    def __init__(self, service: Service, patience: float = 30.0) -> None:
        self.socket = listen("127.0.0.1", 0)
        self.address = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.service = service
        self.server = uvicorn.Server(configured(service, patience))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()
        for _ in range(500):
            if self.server.started:
                return
            self.thread.join(0.02)
        raise RuntimeError("the server did not start")

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(20)
        self.socket.close()
        assert not self.thread.is_alive()


@pytest.fixture
def running_of(models: list[Served]) -> Iterator[Callable[..., Running]]:
    made = []

    def make(loaded: list[Served] | None = None, *, patience: float = 30.0, **given: Any) -> Running:
        service = {name: given.pop(name) for name in ("keys", "origins", "hosts") if name in given}
        engine = Engine(models if loaded is None else loaded, Limits(**{"grace": 3.0, **given}))
        made.append(Running(Service(engine, **service), patience))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def events_of() -> Callable[[str], list[tuple[str, Any]]]:
    """From a stream of server-sent events to their kinds and data."""

    def read(text: str) -> list[tuple[str, Any]]:
        found = []
        for block in filter(None, text.split("\n\n")):
            kind, _, data = block.partition("\ndata: ")
            found.append((kind.removeprefix("event: "), json.loads(data)))
        return found

    return read
