"""The addresses of the endpoint, and the steps of a request: check, encode, decode beside others, write."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fastapi import FastAPI
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from mars.config import MAX_SEED, DecodingSettings, LayoutName
from mars.decoders import DecoderInfo
from mars.schema import as_json, shown
from mars.serve import RequestLimits, conformance, remote
from mars.serve.answers import AnswerStream, Bodies, Piece, Writer
from mars.serve.async_service import AsyncStream, Served
from mars.serve.conformance import IGNORED_HEADER
from mars.serve.guard import LEFT, ApiError, Callers, Guard, until_gone
from mars.serve.metrics import CONTENT_TYPE, Metrics
from mars.serve.schema import UNIONS, ChatRequest, CompletionRequest, Request, StreamOptions

MODEL = "/v1/models/{name:path}"
PATHS = ("/v1/models", MODEL, remote.PATH, "/v1/chat/completions", "/v1/completions", "/health", "/metrics")
_READ = ["GET", "HEAD"]
_NAMED = ", ".join(path for path in PATHS if "{" not in path)
_OWN = ("threshold", "block_size", "layout")
_MOST_LISTS = 100_000  # and brackets in texts; to read so many takes a tenth of a second
_CHARACTERS = 8  # of a prompt for each token of the context, at first: a longer prompt is read in steps
Body = TypeVar("Body", bound=Request)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRequest:
    """A running request: how it is decoded, and what its answer is built from."""

    info: DecoderInfo
    records: AsyncStream
    writer: Writer
    bodies: Bodies
    prompt_tokens: int
    headers: Mapping[str, str]
    began: float


def build(served: Served, limits: RequestLimits, callers: Callers, metrics: Metrics) -> FastAPI:
    """The application: all of `PATHS`, guarded."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(served.service.close)

    def answered(path: str, status: int) -> None:
        """Count an answer by its route; all addresses that do not exist count as one, and so do those of models."""
        known = MODEL if path.startswith("/v1/models/") else path
        metrics.requests.labels(known if known in PATHS else "other", str(status)).inc()

    app = FastAPI(title="MARS", openapi_url=None, lifespan=lifespan, redirect_slashes=False)
    app.state.served = served
    app.add_middleware(Guard, limits=limits, callers=callers, answered=answered)
    if callers.origins:  # before the guard, so that a browser is answered before it sends a key, and reads errors
        methods, exposed = ["GET", "POST"], [IGNORED_HEADER, "retry-after"]
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(callers.origins),
            allow_methods=methods,
            allow_headers=["*"],
            expose_headers=exposed,
            allow_private_network=True,
        )
    app.add_exception_handler(HTTPException, _refusal)
    endpoint = Endpoint(served, limits, metrics)
    app.add_api_route("/v1/models", endpoint.models, methods=_READ)
    app.add_api_route(MODEL, endpoint.model, methods=_READ)
    app.add_api_route(remote.PATH, endpoint.description, methods=_READ)
    app.add_api_route("/v1/chat/completions", endpoint.chat, methods=["POST"])
    app.add_api_route("/v1/completions", endpoint.completions, methods=["POST"])
    app.add_api_route("/health", endpoint.health, methods=_READ)
    app.add_api_route("/metrics", endpoint.metrics, methods=_READ)
    return app


class Endpoint:
    """The functions behind the addresses."""

    def __init__(self, served: Served, limits: RequestLimits, metrics: Metrics) -> None:
        self._served = served
        self._limits = limits
        self._metrics = metrics
        self._created = int(time.time())

    async def models(self) -> Response:
        """All models: there is one."""
        return JSONResponse({"object": "list", "data": [self._card]})

    async def model(self, name: str) -> Response:
        """The one, by its name."""
        self._check(name)
        return JSONResponse(self._card)

    async def description(self) -> Response:
        """The facts of the model, for pages whose lanes use it (mars/serve/remote.py)."""
        served = self._served
        found = remote.Description.of(served.checkpoint, served.service.context, served.decoders)
        return Response(as_json(replace(found, name=served.name)), media_type="application/json")

    async def health(self) -> Response:
        """Whether requests can be answered: 503 once the passes have ended."""
        service = self._served.service
        status = "ok" if service.alive else "failing"
        body = {"status": status, "running": service.running, "waiting": service.waiting}
        return JSONResponse(body, status_code=200 if service.alive else 503)

    async def metrics(self) -> Response:
        """For Prometheus."""
        return Response(self._metrics.text(), media_type=CONTENT_TYPE)

    async def chat(self, request: HttpRequest) -> Response:
        """Turns in, the next turn out."""
        params, ignored = await _read(request, ChatRequest)
        self._admit(params)
        turns = [message.turn() for message in params.messages]
        said = "\n".join(turn["content"] for turn in turns)
        prompt = await self._encoded("messages", said, lambda: self._served.checkpoint.encode_chat(turns))
        return await self._answer(request, params, prompt, ignored)

    async def completions(self, request: HttpRequest) -> Response:
        """A text in, its continuation out."""
        params, ignored = await _read(request, CompletionRequest)
        self._admit(params)
        try:
            single = params.single
        except ValueError as error:
            raise ApiError(400, str(error), param="prompt") from None
        if isinstance(single, str):
            encode = self._served.checkpoint.encode_beginning
            prompt = await self._encoded("prompt", single, lambda: encode(single))
        elif max(single) >= (size := self._served.checkpoint.engine.vocab_size):
            raise ApiError(400, f"token ids must be between 0 and {size - 1}, got {max(single)}", param="prompt")
        else:
            prompt = single
        return await self._answer(request, params, prompt, ignored)

    async def _answer(
        self, request: HttpRequest, params: Request, prompt: list[int], ignored: Sequence[str]
    ) -> Response:
        running = self._submit(params, prompt, ignored, request.state.began)
        if params.stream:
            stream = running.bodies.stream(self.pieces(running), params.stream_options or StreamOptions())
            return AnswerStream(stream, running.headers, self._limits.send_seconds, running.records.close)
        whole: list[Piece] = []

        async def write() -> None:
            async with aclosing(self.pieces(running)) as pieces:
                whole.extend([piece async for piece in pieces])

        try:
            if not await until_gone(request.receive, write()):
                return Response(status_code=LEFT)
        finally:
            running.records.close()
        return JSONResponse(running.bodies.whole(whole, running.writer.tally), headers=dict(running.headers))

    def _submit(self, params: Request, prompt: list[int], ignored: Sequence[str], began: float) -> RunningRequest:
        """Start decoding; every error is raised before an answer begins."""
        served = self._served
        length = self._length(params, len(prompt))
        named = [name for name in ("decoder", *_OWN) if params.names(name)]
        try:
            info = served.info(params.decoder, free=not named)
        except ValueError as error:
            raise ApiError(400, str(error), param="decoder") from None
        try:
            settings = _settings(params, served, length, served.layout(info, free=not named))
            records = served.service.submit(info.name, prompt, settings, free=not named)
        except ValueError as error:
            raise ApiError(400, str(error)) from None
        unread = [name for name in named if name != "decoder" and name not in info.settings]
        names = [*ignored, *params.idle, *unread]
        form = {"chat": isinstance(params, ChatRequest), "logprobs": params.alternatives is not None}
        return RunningRequest(
            info=info,
            records=records,
            writer=Writer(served.checkpoint, params.stops, params.alternatives),
            bodies=Bodies(served.name, len(prompt), records=bool(params.records), **form),
            prompt_tokens=len(prompt),
            headers={IGNORED_HEADER: ", ".join(names)} if names else {},
            began=began,
        )

    async def pieces(self, running: RunningRequest) -> AsyncGenerator[Piece]:
        """One piece for each pass, up to the end; leaving it frees the row."""
        first = last = 0.0
        try:
            async for record in running.records:
                piece = running.writer.add(record)
                last = time.monotonic()
                if piece.tokens and not first:
                    first = last
                    self._metrics.first.observe(first - running.began)
                yield piece
                if piece.finish is not None:
                    return
            raise RuntimeError("the records ended before the text")
        finally:
            running.records.close()
            writer = running.writer
            self._metrics.finished(
                decoder=running.info.name,
                prompt=running.prompt_tokens,
                completion=writer.tokens,
                passes=writer.tally.passes,
                seconds=time.monotonic() - running.began,
                writing_seconds=last - first,
            )
            if writer.finish is None:
                self._metrics.left.inc()

    def _admit(self, params: Request) -> None:
        """Raise ApiError unless it is this model that is asked, and there is room in its queue."""
        if params.model is not None:
            self._check(params.model)
        self._served.service.check_room()

    def _check(self, name: str) -> None:
        if name != self._served.name:
            says = f"the model {name[:64]!r} is not served here: use {self._served.name}"
            raise ApiError(404, says, param="model", code="model_not_found")

    @property
    def _card(self) -> dict[str, Any]:
        """The model, and what it can be asked for."""
        return {
            "id": self._served.name,
            "object": "model",
            "created": self._created,
            "owned_by": "mars",
            "max_model_len": self._served.service.context,
            "decoders": self._served.decoders,
        }

    async def _encoded(self, param: str, text: str, encode: Callable[[], list[int]]) -> list[int]:
        """Token ids of a prompt that came as `param` and holds `text`, in a thread: long ones take a while."""
        try:
            prompt = await run_in_threadpool(self._encode, text, encode)
        except ValueError as error:
            raise ApiError(400, str(error), param=param) from None
        if not prompt:
            raise ApiError(400, "the prompt has no tokens", param=param)
        return prompt

    def _encode(self, text: str, encode: Callable[[], list[int]]) -> list[int]:
        """What `encode` gives, unless the beginning of the text has more tokens than the context already."""
        context = self._served.service.context
        size = _CHARACTERS * context
        while size < len(text):
            if len(self._served.checkpoint.encode_text(text[:size])) > context + 1:
                says = f"the prompt has more tokens than the context of {context}: shorten it"
                raise ApiError(400, says, code="context_length_exceeded")
            size *= 2
        return encode()

    def _length(self, params: Request, prompt_tokens: int) -> int:
        """The most tokens that the answer may have."""
        context, most = self._served.service.context, self._limits.new_tokens
        room = context - prompt_tokens
        if params.length is not None and params.length > most:
            name = params.length_name
            raise ApiError(400, f"{name} must be at most {most}, got {params.length}", param=name)
        if room < (params.length or 1):
            raise ApiError(
                400,
                f"the prompt has {prompt_tokens} tokens and the answer up to {params.length or 1}, but the context has "
                f"{context}: shorten the prompt or lower {params.length_name}",
                param=params.length_name if prompt_tokens < context else None,
                code="context_length_exceeded",
            )
        return params.length or min(room, params.default_length or most, most)


def _settings(params: Request, served: Served, length: int, layout: LayoutName) -> DecodingSettings:
    """The request's settings, and the server's, this layout among them, where it names none.

    ValueError where a value is out of range.
    """
    threshold = params.threshold if "threshold" in params.model_fields_set else served.threshold
    temperature = params.temperature or 0.0
    seed = secrets.randbelow(MAX_SEED + 1) if params.seed is None and temperature else params.seed or 0
    return DecodingSettings(
        threshold=threshold,
        block_size=params.block_size or served.usual_block_size,
        layout=params.layout or layout,
        temperature=temperature,
        top_p=1.0 if params.top_p is None else params.top_p,
        seed=seed % (MAX_SEED + 1),
        max_new_tokens=length,
        alternatives=params.alternatives or 0,
    )


async def _read(request: HttpRequest, kind: type[Body]) -> tuple[Body, tuple[str, ...]]:
    """The request, checked, and the names of its parameters that have no effect."""
    request.state.began = time.monotonic()
    return await run_in_threadpool(_check, await request.body(), kind)


def _check(body: bytes, kind: type[Body]) -> tuple[Body, tuple[str, ...]]:
    if body.count(b"[") + body.count(b"{") > _MOST_LISTS:
        raise ApiError(413, f"the body has more than {_MOST_LISTS:,} lists and objects", code="too_large")
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise ApiError(400, "the body is not JSON") from None
    if not isinstance(data, dict):
        raise ApiError(400, "the body must be a JSON object")
    try:
        params = kind.model_validate(data)
        return params, conformance.ignored((params.model_extra or {}).items())
    except ValidationError as error:
        name, sentence = _sentence(error)
        raise ApiError(400, sentence, param=name) from None


def _sentence(error: ValidationError) -> tuple[str | None, str]:
    """The parameter at fault and one sentence about it; of several errors, the most deeply nested one."""
    found = max(error.errors(include_url=False, include_context=False), key=lambda one: len(one["loc"]))
    name = str(found["loc"][0]) if found["loc"] else None
    kinds = ("str", "bool", "int", "float")  # pydantic names a member of a union by its type
    place = [str(part) for part in found["loc"] if isinstance(part, int) or (part.isidentifier() and part not in kinds)]
    says = found["msg"].removeprefix("Value error, ").replace("Input should be", "it should be")
    says = re.sub(r"a valid dictionary or instance of \w+", "an object", says)
    if name in UNIONS and found["type"] != "missing":
        return name, f"{name}: {UNIONS[name]}"
    got = "" if found["type"] in ("missing", "value_error") else f", got {ascii(shown(found['input']))[1:-1][:80]}"
    return name, f"{'.'.join(place) or 'the body'}: {says[0].lower()}{says[1:]}{got}"


async def _refusal(_: HttpRequest, error: Any) -> Response:
    if not isinstance(error, ApiError):
        headers = error.headers or {}
        says = {
            404: f"there is nothing at this address: those of this server are {_NAMED}",
            405: f"this address takes no such method, only {headers.get('Allow')}",
        }.get(error.status_code, "the request cannot be answered")
        error = ApiError(error.status_code, says, headers=headers)
    return error.response
