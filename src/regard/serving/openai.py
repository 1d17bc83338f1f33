"""OpenAI's dialect: /v1/models, /v1/completions, /v1/chat/completions and /v1/embeddings."""

from __future__ import annotations

import base64
import json
import secrets
import struct
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from regard.serving.bodies import Body, read, takes
from regard.serving.generating import Prompt
from regard.serving.native import BOTH, EVENTS
from regard.serving.refusals import RefusalError, body, refusal
from regard.serving.served import Served, Wish
from regard.serving.service import Service
from regard.serving.waiting import Following, answers, submit, told

FINISH = {"end": "stop", "stop": "stop", "length": "length"}
STOPS = 16


class StreamOptions(Body):
    """include_usage: a last chunk that counts the tokens."""

    include_usage: bool = False


class Generating(Body):
    """What both kinds of completion take. Fields that would change the answer, and cannot be honoured, are refused."""

    model: str
    n: int | None = 1
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    frequency_penalty: float | None = 0.0
    presence_penalty: float | None = 0.0
    logit_bias: dict[str, float] | None = None


class CompletionBody(Generating):
    """prompt: a text to go on with, or several."""

    prompt: str | list[str] | list[int] | list[list[int]]
    max_tokens: int | None = 16
    logprobs: int | None = None
    echo: bool | None = False
    suffix: str | None = None
    best_of: int | None = None


class ContentPart(Body):
    """A part of a message."""

    type: str
    text: str | None = None


class ChatMessage(Body):
    """One message of a conversation."""

    role: str
    content: str | list[ContentPart] | None = None


class ChatBody(Generating):
    """messages: a conversation that the model is to go on with."""

    messages: list[ChatMessage]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    logprobs: bool | None = False
    top_logprobs: int | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    response_format: dict[str, Any] | None = None


class EmbeddingBody(Body):
    """input: one text or several."""

    model: str
    input: str | list[str] | list[int] | list[list[int]]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None


BODIES = (CompletionBody, ChatBody, EmbeddingBody)


def router(service: Service) -> APIRouter:
    """The routes under /v1."""
    routes = APIRouter(prefix="/v1", tags=["OpenAI"])

    @routes.get("/models")
    async def models() -> Any:
        """The models."""
        return {"object": "list", "data": [_model(served) for served in service.engine.models.values()]}

    @routes.get("/models/{name}")
    async def model(name: str) -> Any:
        """One model."""
        if name not in service.engine.models:
            raise RefusalError(404, "there is no model of this name", "model")
        return _model(service.engine.models[name])

    @routes.post("/completions", openapi_extra=takes(CompletionBody), responses=BOTH)
    async def completions(request: Request) -> Response:
        """Go on with texts."""
        given = await read(request, CompletionBody)
        _refuse(given, ("suffix",))
        texts = texts_of(given.prompt, "prompt")
        prompts: list[Any] = list(texts)
        return await _Completing(service, given, prompts, False, texts).answer(given.max_tokens or 16, request.state.request)

    @routes.post("/chat/completions", openapi_extra=takes(ChatBody), responses=BOTH)
    async def chat(request: Request) -> Response:
        """Answer a conversation."""
        given = await read(request, ChatBody)
        _refuse(given, ("tools", "functions", "top_logprobs"))
        if given.response_format and given.response_format.get("type") != "text":
            raise RefusalError(400, "response_format: only text is offered by this server", "response_format")
        messages = tuple((one.role, _content(one)) for one in given.messages)
        texts = [part for one in messages for part in one]
        most = given.max_completion_tokens or given.max_tokens or service.engine.limits.new_tokens
        return await _Completing(service, given, [messages], True, texts).answer(most, request.state.request)

    @routes.post("/embeddings", openapi_extra=takes(EmbeddingBody))
    async def embeddings(request: Request) -> Response:
        """A vector of each text."""
        return await _embedded(service, await read(request, EmbeddingBody), request.state.request)

    return routes


def _model(served: Served) -> dict[str, Any]:
    return {"id": served.name, "object": "model", "created": served.created, "owned_by": "regard"}


async def _embedded(service: Service, given: EmbeddingBody, name: str) -> Response:
    _refuse(given, ("dimensions",))
    texts = texts_of(given.input, "input")
    service.check_texts(texts, "input")
    served = service.named(given.model, "embed")
    sizes = served.sizes("embed", texts)
    if max(sizes, default=0) > served.limit:
        raise RefusalError(400, f"input: a text has {max(sizes):,} tokens, the model reads {served.limit:,}", "input")
    found = await answers(await submit(service.engine, served.name, Wish("embed"), texts, None, name))
    data = [
        {"object": "embedding", "index": place, "embedding": _packed(row) if given.encoding_format == "base64" else row}
        for place, row in enumerate(found)
    ]
    usage = {"prompt_tokens": sum(sizes), "total_tokens": sum(sizes)}
    return JSONResponse({"object": "list", "data": data, "model": served.name, "usage": usage})


def _packed(row: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode()


def texts_of(given: Any, field: str) -> list[str]:
    """One text or several as a list. RefusalError: token ids, or none at all."""
    texts = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(text, str) for text in texts):
        raise RefusalError(400, f"{field}: give texts; token ids are not taken", field)
    if not texts:
        raise RefusalError(400, f"{field}: give one text at least", field)
    return texts


def _refuse(given: Any, names: Sequence[str]) -> None:
    for name in names:
        if getattr(given, name):
            raise RefusalError(400, f"{name}: is not offered by this server", name)


def _content(message: ChatMessage) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    for part in message.content:
        if part.type != "text" or part.text is None:
            raise RefusalError(400, "messages: only parts of text are taken", "messages")
    return "".join(part.text or "" for part in message.content)


class _Completing:
    """One request for completions of either kind."""

    def __init__(self, service: Service, given: Any, prompts: list[Any], chat: bool, texts: list[str]) -> None:
        self.service, self.given, self.prompts, self.chat = service, given, prompts, chat
        self.field = "messages" if chat else "prompt"
        _refuse(given, ("frequency_penalty", "presence_penalty", "logit_bias"))
        service.check_texts(texts, self.field)
        self.served = service.named(given.model, "generate")
        if chat and not self.served.chats:
            raise RefusalError(400, f"the model {given.model} has no chat template: use /v1/completions", "model")
        most = service.engine.limits.alternatives + 1
        self.copies = 1 if given.n is None else given.n
        if not 1 <= self.copies <= most:
            raise RefusalError(400, f"n must be a whole number from 1 to {most}", "n")
        stop = [given.stop] if isinstance(given.stop, str) else given.stop or []
        if len(stop) > STOPS or not all(stop):
            raise RefusalError(400, f"stop: at most {STOPS} texts, none of them empty", "stop")
        self.stop = tuple(stop)
        kind, what = ("chatcmpl", "chat.completion") if chat else ("cmpl", "text_completion")
        self.name = f"{kind}-{secrets.token_hex(12)}"
        self.head = {"id": self.name, "object": what, "created": int(time.time()), "model": self.served.name}

    async def answer(self, most: int, request: str) -> Response:
        """The whole answer, or a stream."""
        limits, given = self.service.engine.limits, self.given
        if not 1 <= most <= limits.new_tokens:
            raise RefusalError(400, f"max_tokens must be a whole number from 1 to {limits.new_tokens:,}", "max_tokens")
        greedy = given.temperature == 0
        named = {"temperature": given.temperature, "top_p": given.top_p, "seed": given.seed, "sample": not greedy}
        wish = self.served.wish(
            "generate", limits, num_return=self.copies if self.copies > 1 and not greedy else None, **named
        )
        numbers = [0 if given.seed is not None else secrets.randbits(62) for _ in self.prompts]
        units = [Prompt(text, most, self.stop, n, bool(given.stream)) for text, n in zip(self.prompts, numbers)]
        if not given.stream:
            found = await answers(await submit(self.service.engine, self.served.name, wish, units, None, request))
            return JSONResponse(self._whole(found))
        if self.copies > 1:
            raise RefusalError(400, "n: several answers are not streamed; leave it at 1", "n")
        following = Following()
        ticket = await submit(self.service.engine, self.served.name, wish, units, following.listen, request)
        return StreamingResponse(self._chunks(told(following.events(ticket), lambda one: one.text)), media_type=EVENTS)

    def _whole(self, found: list[Any]) -> dict[str, Any]:
        choices = []
        for prompt, best in zip(self.prompts, found):
            copies = [best, *best.alternatives]
            for one in copies + [best] * (self.copies - len(copies)):
                choices.append(self._choice(len(choices), prompt, one))
        return self.head | {"choices": choices, "usage": self._usage(found)}

    def _usage(self, found: list[Any]) -> dict[str, int]:
        asked = sum(len(self.served.loaded.prompt_ids(one.prompt)) for one in found)
        written = sum(len(one.tokens) for best in found for one in (best, *best.alternatives))
        return {"prompt_tokens": asked, "completion_tokens": written, "total_tokens": asked + written}

    def _choice(self, index: int, prompt: Any, one: Any) -> dict[str, Any]:
        found: dict[str, Any] = {"index": index, "finish_reason": FINISH[one.finish], "logprobs": self._logs(one)}
        if self.chat:
            return found | {"message": {"role": "assistant", "content": one.text, "refusal": None}}
        return found | {"text": prompt + one.text if self.given.echo else one.text}

    def _logs(self, one: Any) -> dict[str, Any] | None:
        """The tokens written with their log-probabilities, where they are asked for."""
        if self.given.logprobs is None or self.given.logprobs is False:
            return None
        if self.chat:
            pairs = zip(one.tokens, one.token_log_probs)
            return {"content": [{"token": t, "logprob": log, "bytes": None, "top_logprobs": []} for t, log in pairs]}
        return {"tokens": one.tokens, "token_logprobs": one.token_log_probs, "top_logprobs": None, "text_offset": []}

    async def _chunks(self, events: AsyncIterator[tuple[int, str, Any]]) -> AsyncIterator[str]:
        """Server-sent events as OpenAI's clients read them."""
        head = self.head | ({"object": "chat.completion.chunk"} if self.chat else {})
        found: list[Any] = []
        line: Callable[[Any], str] = lambda value: f"data: {json.dumps(value, ensure_ascii=False)}\n\n"  # noqa: E731
        try:
            for index in range(len(self.prompts)):
                if self.chat:
                    yield line(head | {"choices": [self._part(index, {"role": "assistant", "content": ""}, None)]})
                elif self.given.echo:
                    yield line(head | {"choices": [self._part(index, self.prompts[index], None)]})
            async for index, text, value in events:
                if text:
                    yield line(head | {"choices": [self._part(index, {"content": text} if self.chat else text, None)]})
                if value is not None:
                    found.append(value)
                    last = self._part(index, {} if self.chat else "", FINISH[value.finish])
                    yield line(head | {"choices": [last | {"logprobs": self._logs(value)}]})
            if self.given.stream_options is not None and self.given.stream_options.include_usage:
                yield line(head | {"choices": [], "usage": self._usage(found)})
            yield "data: [DONE]\n\n"
        except Exception as error:
            yield line(body("/v1/", refusal(error)))

    def _part(self, index: int, piece: Any, finish: str | None) -> dict[str, Any]:
        return {"index": index, "delta" if self.chat else "text": piece, "finish_reason": finish, "logprobs": None}
