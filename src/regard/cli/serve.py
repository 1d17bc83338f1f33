"""regard serve: models for many people at once, over HTTP."""

from __future__ import annotations

import importlib.util
import ipaddress
import logging
import os
import sys
from dataclasses import fields
from typing import Annotated, Any

from typer import Argument, Option

from regard.cli.streams import heard
from regard.errors import UserError

NEEDS = ("fastapi", "uvicorn", "prometheus_client", "sentencex")
LOCAL = ("localhost", "")


def command(
    model: Annotated[
        list[str],
        Argument(
            help="model folder, or NAME=FOLDER (FOLDER+FOLDER: an ensemble); a name such as en-fr tells the languages of one"
            " that does not"
        ),
    ],
    host: Annotated[str, Option(help="address to listen at; 0.0.0.0: all of this machine's")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="0: any that is free")] = 8000,
    api_key: Annotated[
        list[str] | None, Option(help="ask for one of these keys (also from REGARD_API_KEY, unseen by other users)")
    ] = None,
    allow_host: Annotated[
        list[str] | None, Option(help="name under which it may be reached beside this machine's own; *: any")
    ] = None,
    cors_origin: Annotated[list[str] | None, Option(help="page that may use it, such as https://a.example; *: any")] = None,
    root_path: Annotated[str, Option(help="path under which a proxy shows the server, such as /tr")] = "",
    proxy: Annotated[str, Option(help="addresses of proxies whose X-Forwarded headers are believed")] = "127.0.0.1",
    workers: Annotated[
        int, Option(min=1, help="processes a model, of one thread each (CPU); 1: a thread of the server")
    ] = 1,
    max_seconds: Annotated[float, Option(help="time limit of a request")] = 60.0,
    max_texts: Annotated[int, Option(help="texts of a request")] = 2000,
    max_characters: Annotated[int, Option(help="characters of a request")] = 200_000,
    max_alternatives: Annotated[int, Option(help="alternatives of an answer")] = 10,
    max_beams: Annotated[int, Option(help="beams that a request may ask for")] = 16,
    max_new_tokens: Annotated[int, Option(help="tokens of an answer that a request may ask for")] = 1024,
    max_body_bytes: Annotated[int, Option(help="bytes of a request's body")] = 1 << 20,
    max_waiting: Annotated[int, Option(help="sentences that may wait for a model; more are answered 429")] = 4096,
    max_connections: Annotated[int, Option(help="requests open at once; more are answered 429")] = 1024,
    batch_tokens: Annotated[int, Option(help="source tokens of a batch; changes speed, not answers")] = 2048,
    grace: Annotated[float, Option(help="seconds that open requests have to end when the server stops")] = 20.0,
    device: Annotated[str | None, Option(help="cpu, cuda, cuda:1 …; default: the GPU if there is one")] = None,
    dtype: Annotated[str | None, Option(help="float32, bfloat16, float16, int8 (CPU); default: as stored")] = None,
    engine: Annotated[str, Option(help="regard, or compiled: the same answers, sooner (CPU, float32)")] = "regard",
) -> None:
    """Serve models in the dialects of LibreTranslate, DeepL and OpenAI, and in regard's own, until Ctrl-C or SIGTERM.

    Only this machine reaches the server unless --host says otherwise, and no page of another site may use it.
    """
    options = dict(locals())
    lacking = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if lacking:
        raise UserError(f"serving needs {', '.join(lacking)}, not installed here: pip install 'regard[serve]'")
    _serve(options)


def _serve(given: dict[str, Any]) -> None:
    from regard.serving.engine import Engine
    from regard.serving.limits import Limits
    from regard.serving.served import open_models
    from regard.serving.server import listen, serve
    from regard.serving.service import Service

    named = {name.removeprefix("max_"): value for name, value in given.items()}
    limits = Limits(**{field.name: named[field.name] for field in fields(Limits) if field.name in named})
    keys = tuple(key for key in (*(given["api_key"] or ()), os.environ.get("REGARD_API_KEY", "")) if key)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    host, names, path = given["host"], given["allow_host"], given["root_path"]
    hosts = None if names is None and not _is_local(host) else tuple(name.lower() for name in names or ())
    # what the translator warns of is part of the answers
    quiet = heard("regard.translator", logging.ERROR)
    with heard("regard.serving", logging.INFO), quiet, listen(host, given["port"]) as listening:
        models = open_models(*(given[name] for name in ("model", "device", "dtype", "engine")))
        engine = Engine(models, limits, given["workers"])
        address = f"http://{'[' + host + ']' if ':' in host else host}:{listening.getsockname()[1]}{path}"
        listening.listen(1024)  # whoever comes from now on is answered
        _say(f"serving {', '.join(engine.models)} at {address}")
        if not keys and not _is_local(host):
            _say("anybody who reaches this address may use it: --api-key asks for a key")
        serve(Service(engine, keys, tuple(given["cors_origin"] or ()), hosts), listening, path, given["proxy"])
    _say("stopped")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _is_local(host: str) -> bool:
    """Whether only this machine reaches a server at this address."""
    if host in LOCAL:
        return bool(host)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
