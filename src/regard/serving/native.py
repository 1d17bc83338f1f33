"""Our own dialect under /api: all that a model can tell, in one shape for each thing it does."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import ConfigDict, Field

from regard.serving.bodies import Body, read, takes
from regard.serving.generating import Prompt
from regard.serving.linking import Linked, links_words, spans, strongest
from regard.serving.refusals import RefusalError, body, refusal
from regard.serving.served import Served, Translated, Wish
from regard.serving.service import How, Kind, Service, Text, confidence
from regard.serving.waiting import Following, answers, submit, told
from regard.text.sentences import Sentence

EVENTS = "text/event-stream"
BOTH: dict[int | str, dict[str, Any]] = {200: {"content": {"application/json": {}, EVENTS: {}}}}
"""What a route that can stream says about its answers in the OpenAPI document."""


class Strict(Body):
    """A body in which an unknown field is a mistake."""

    model_config = ConfigDict(extra="forbid")


class TranslateBody(Strict):
    """text: one or several. model, or source and target (languages), choose the model. split: where sentences end. format:
    the texts are documents, translated in place; attributes: of HTML, alt texts and titles too. prefix: how the translation
    of a single sentence begins. context: sentences before a single sentence, each with its translation, for models that
    learned to read them (data.context). alternatives: further answers. alignment: links between words. attention: how much
    each word of the best translation looked at each source word. The rest: search options; null for the model's own."""

    text: str | list[str]
    model: str | None = None
    source: str | None = None
    target: str | None = None
    split: Literal["lines", "marks", "no"] = "lines"
    format: Literal["text", "srt", "vtt", "markdown", "html", "po"] | None = None
    attributes: bool = False
    prefix: str = ""
    context: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(default_factory=list)
    alternatives: int = 0
    alignment: bool = False
    attention: bool = False
    stream: bool = False
    num_beams: int | None = None
    length_penalty: float | None = None
    max_length: int | None = None
    sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None


class Message(Body):
    """One message of a conversation."""

    role: str
    content: str


class GenerateBody(Strict):
    """prompt: a text to go on with, or messages: a conversation. The rest: search options."""

    prompt: str | None = None
    messages: list[Message] | None = None
    model: str | None = None
    max_new_tokens: int = 128
    stop: list[str] = Field(default_factory=list)
    stream: bool = False
    alternatives: int = 0
    num_beams: int | None = None
    sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    repetition_penalty: float | None = None


class ClassifyBody(Strict):
    """text: one or several, or pairs of two texts each."""

    text: str | list[str | Annotated[list[str], Field(min_length=2, max_length=2)]]
    model: str | None = None


BODIES = (TranslateBody, GenerateBody, ClassifyBody)
SEARCH = ("num_beams", "length_penalty", "max_length", "sample", "temperature", "top_k", "top_p", "min_p", "seed")


def search_of(given: Any, service: Service) -> dict[str, Any]:
    """The search options of a body. RefusalError: more alternatives than the limit."""
    most = service.engine.limits.alternatives
    if not 0 <= given.alternatives <= most:
        raise RefusalError(400, f"alternatives must be a whole number from 0 to {most}", "alternatives")
    named = {name: getattr(given, name, None) for name in (*SEARCH, "repetition_penalty")}
    return named | ({"num_return": given.alternatives + 1} if given.alternatives else {})


def router(service: Service) -> APIRouter:
    """The routes under /api."""
    routes = APIRouter(prefix="/api", tags=["regard"])

    @routes.get("/models")
    async def models() -> Any:
        """Every model, what it can do, its languages and limits."""
        return {"models": [described(served, service) for served in service.engine.models.values()]}

    @routes.get("/models/{name}")
    async def model(name: str) -> Any:
        """One model."""
        if name not in service.engine.models:
            raise RefusalError(404, "there is no model of this name", "name")
        return described(service.engine.models[name], service)

    @routes.post("/translate", openapi_extra=takes(TranslateBody), responses=BOTH)
    async def translate(request: Request) -> Response:
        """Translate texts, with alternatives, word alignment and confidence; as events with `stream`."""
        return await _translated(service, await read(request, TranslateBody), request.state.request)

    @routes.post("/generate", openapi_extra=takes(GenerateBody), responses=BOTH)
    async def generate(request: Request) -> Response:
        """Go on with a text, or answer a conversation; as events with `stream`."""
        given = await read(request, GenerateBody)
        served, prompt = prompt_of(service, given)
        wish = served.wish("generate", service.engine.limits, **search_of(given, service))
        return await _generated(service, served, wish, prompt, request.state.request)

    @routes.post("/classify", openapi_extra=takes(ClassifyBody))
    async def classify(request: Request) -> Response:
        """The label of each text, and how likely every label is."""
        given = await read(request, ClassifyBody)
        texts: list[Any] = [given.text] if isinstance(given.text, str) else given.text
        texts = [one if isinstance(one, str) else tuple(one) for one in texts]
        service.check_texts([part for one in texts for part in ([one] if isinstance(one, str) else one)], "text")
        served = service.named(given.model, "classify")
        ticket = await submit(service.engine, served.name, Wish("classify"), texts, None, request.state.request)
        found = [one.json() | {"text": one.text} for one in await answers(ticket)]
        return JSONResponse({"model": served.name, "classifications": found})

    return routes


async def _translated(service: Service, given: TranslateBody, name: str) -> Response:
    texts = [given.text] if isinstance(given.text, str) else given.text
    before = tuple((source, translation) for source, translation in given.context)
    service.check_texts([*texts, given.prefix, *(side for pair in before for side in pair)], "text")
    served = chosen(service, given)
    wish = served.wish("translate", service.engine.limits, **search_of(given, service))
    if given.format is not None:
        return await _documents(service, given, served, wish, name)
    how = How(given.split, given.prefix, given.alternatives + 1 if given.alignment else int(given.attention), before)
    if given.stream:
        if len(texts) != 1:
            raise RefusalError(400, "stream: takes one text", "stream")
        parts, events = await service.follow(served, texts[0], wish, how, name)
        return StreamingResponse(stream_of(served, parts, events, given), media_type=EVENTS)
    found = await service.translate(served, texts, wish, how, name)
    return JSONResponse({"model": served.name, "translations": [shown(served, one, given) for one in found]})


async def _documents(service: Service, given: TranslateBody, served: Served, wish: Wish, name: str) -> Response:
    """Documents of a format: each whole again, and what was translated in it."""
    for field in ("stream", "alternatives", "alignment", "attention", "prefix", "context"):
        if getattr(given, field):
            raise RefusalError(400, f"{field}: is for sentences, not for documents", field)
    texts = [given.text] if isinstance(given.text, str) else given.text
    kind = Kind(str(given.format), "no" if given.split == "no" else "sentences", given.attributes)
    found = await service.documents(served, texts, wish, kind, name)
    rows = [{"text": one.text, "passages": [passage.json(sentences=False) for passage in one.passages]} for one in found]
    return JSONResponse({"model": served.name, "translations": rows})


async def _generated(service: Service, served: Served, wish: Wish, prompt: Prompt, name: str) -> Response:
    if not prompt.follow:
        [found] = await answers(await submit(service.engine, served.name, wish, [prompt], None, name))
        return JSONResponse({"model": served.name} | generation(served, found))
    following = Following()
    ticket = await submit(service.engine, served.name, wish, [prompt], following.listen, name)

    async def lines() -> AsyncIterator[str]:
        async for _, text, value in told(following.events(ticket), lambda one: one.text):
            if text:
                yield event("piece", {"text": text})
            if value is not None:
                yield event("done", {"model": served.name} | generation(served, value))

    return StreamingResponse(guarded(lines()), media_type=EVENTS)


def prompt_of(service: Service, given: GenerateBody) -> tuple[Served, Prompt]:
    """The model and the prompt of a request. RefusalError: both of text and messages, or neither, or no chat template."""
    if (given.prompt is None) == (given.messages is None):
        raise RefusalError(400, "prompt: give either a prompt or messages", "prompt")
    served = service.named(given.model, "generate")
    text: Any = given.prompt
    if given.messages is not None:
        if not served.chats:
            raise RefusalError(400, f"messages: the model {served.name} has no chat template", "messages")
        text = tuple((one.role, one.content) for one in given.messages)
    service.check_texts([text] if isinstance(text, str) else [part for one in text for part in one], "prompt")
    most = service.engine.limits.new_tokens
    if not 1 <= given.max_new_tokens <= most:
        raise RefusalError(400, f"max_new_tokens must be a whole number from 1 to {most:,}", "max_new_tokens")
    number = 0 if given.seed is not None else secrets.randbits(62)
    return served, Prompt(text, given.max_new_tokens, tuple(given.stop), number, given.stream)


def chosen(service: Service, given: TranslateBody) -> Served:
    """The translator that a request means: by name, by languages, or the only one."""
    if given.model is None and given.target is not None:
        return service.between(given.source, given.target)
    return service.named(given.model, "translate")


def described(served: Served, service: Service) -> dict[str, Any]:
    """What a client can know of a model."""
    limits, model = service.engine.limits, served.loaded.model
    found: dict[str, Any] = {
        "name": served.name,
        "can": list(served.verbs),
        "source": served.source,
        "target": served.target,
        "chats": served.chats,
        "alignment": "translate" in served.verbs and links_words(served.loaded),
        "inspects": "trace" in served.tools,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "tokens": served.limit,
        "context": served.context,
        "labels": getattr(served.loaded, "labels", None),
    }
    names = ("seconds", "texts", "characters", "alternatives", "beams", "new_tokens", "body_bytes")
    return found | {"limits": {name: getattr(limits, name) for name in names}}


def shown(served: Served, text: Text, given: TranslateBody) -> dict[str, Any]:
    """A translated text as JSON types."""
    parts = [sentence(served, part, one, given) for part, one in zip(text.sentences, text.answers)]
    return {
        "text": text.text,
        "confidence": text.confidence,
        "alternatives": text.alternatives(given.alternatives),
        "truncated": any(part["truncated"] for part in parts),
        "sentences": parts,
    }


def sentence(served: Served, part: Sentence, answer: Translated, given: TranslateBody) -> dict[str, Any]:
    """A translated sentence as JSON types. start: its first character in the text."""
    best = answer.translation
    places = spans(served.loaded.tokenizers.target, best.ids)
    found: dict[str, Any] = {
        "start": part.start,
        "source": part.core,
        "text": best.text,
        "confidence": confidence(best.token_log_probs),
        "score": best.score,
        "tokens": pieces(best.tokens, best.token_log_probs, places),
        "finished": best.finished,
        "truncated": best.truncated,
        "unknown": best.unknown,
        "alternatives": [
            {"text": one.text, "confidence": confidence(one.token_log_probs), "score": one.score}
            for one in best.alternatives
        ],
    }
    if answer.linked is not None and given.alignment:
        found |= _aligned(answer.linked[0])
        for shown_, its in zip(found["alternatives"], answer.linked[1:]):
            shown_ |= _aligned(its)
    if answer.linked is not None and given.attention:
        its = answer.linked[0]
        weights = [[round(weight, 4) for weight in row] for row in its.weights]
        found["words"] = {"source": its.source, "target": its.target, "weights": weights}
    return found


def pieces(tokens: Sequence[str], logs: Sequence[float], places: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Tokens with their log-probabilities and the characters that they add to the text."""
    return [
        {"piece": piece, "log_prob": log, "start": start, "end": end}
        for piece, log, (start, end) in zip(tokens, logs, places)
    ]


def _aligned(its: Linked) -> dict[str, Any]:
    """Links with the characters they join, and in the Pharaoh format, source word - target word."""
    links = strongest(its)
    return {
        "alignment": [{"source": one.source, "target": one.target, "weight": one.weight} for one in links],
        "pharaoh": " ".join(f"{one.words[0]}-{one.words[1]}" for one in links),
    }


def generation(served: Served, found: Any) -> dict[str, Any]:
    """A generation as JSON types."""
    tokenizer = served.loaded.tokenizer
    before = served.loaded.prompt_ids(found.prompt) if isinstance(found.prompt, str) else ()
    ids = [tokenizer.backend.token_to_id(piece) for piece in found.tokens]
    last = len(found.text)  # a stop string cuts the text
    places = [(min(start, last), min(end, last)) for start, end in spans(tokenizer, ids, before)]
    return {
        "text": found.text,
        "finish": found.finish,
        "confidence": confidence(found.token_log_probs),
        "tokens": pieces(found.tokens, found.token_log_probs, places),
        "alternatives": [
            {"text": one.text, "finish": one.finish, "confidence": confidence(one.token_log_probs)}
            for one in found.alternatives
        ],
    }


def event(kind: str, value: Any) -> str:
    """A server-sent event."""
    return f"event: {kind}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n"


def stream_of(
    served: Served, parts: list[Sentence], events: AsyncIterator[tuple[int, str, Any]], given: TranslateBody
) -> AsyncIterator[str]:
    """A text's events: `sentences` (where they start in the text), `piece` (sentence, further text that is certain),
    `sentence` (one is done), `done` (the whole)."""

    async def lines() -> AsyncIterator[str]:
        found: list[Any] = [None] * len(parts)
        yield event("sentences", [{"start": part.start, "source": part.core} for part in parts])
        async for number, text, value in events:
            if text:
                yield event("piece", {"sentence": number, "text": text})
            if value is not None:
                found[number] = value
                yield event("sentence", {"sentence": number} | sentence(served, parts[number], value, given))
        yield event("done", {"model": served.name, "translation": shown(served, Text(parts, found), given)})

    return guarded(lines())


async def guarded(lines: AsyncIterator[str], path: str = "/api/") -> AsyncIterator[str]:
    """The lines of a stream; an error after its beginning becomes its last event."""
    try:
        async for line in lines:
            yield line
    except Exception as error:
        yield event("error", body(path, refusal(error)))
