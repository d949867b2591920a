"""A prompt is what the model's chat template gives, whichever way it comes in; and so is its beginning-of-sequence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from app.compare.starting import prompt_ids
from app.runs.run import Turn
from mars.checkpoint import load_checkpoint
from mars.generate import main
from mars.records import from_json
from mars.serve import remote
from mars.training.data import encode_example, read_chats, read_conversations
from tests.mars.chat_templates import TEMPLATES
from tests.mars.test_chat import CONVERSATIONS, make, turns

ANSWER = "so it is, yes"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_sizes: dict[str, Any]) -> Path:
    """A checkpoint with all control tokens, whose tokenizer begins texts with `<s>`."""
    folder = tmp_path_factory.mktemp("roads")
    tokenizer = make("special", TEMPLATES["llama3"])
    tokenizer.add_bos_token = True
    tokenizer.update_post_processor()
    tokenizer.save_pretrained(folder)
    sizes = {**tiny_sizes, "vocab_size": len(tokenizer), "num_hidden_layers": 1, "pad_token_id": None}
    Qwen2ForCausalLM(Qwen2Config(**sizes)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path, serve: Callable[..., Any]) -> Any:
    return serve(checkpoint=load_checkpoint(folder, dtype="float32", device="cpu"))


@pytest.fixture
def submitted(server: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The prompts that reach the engine of the endpoint."""
    found: list[list[int]] = []
    submit = server.service.submit

    def spy(decoder: str, prompt: list[int], *rest: Any, **options: Any) -> Any:
        found.append(list(prompt))
        return submit(decoder, prompt, *rest, **options)

    monkeypatch.setattr(server.service, "submit", spy)
    return found


def expected(tokenizer: PreTrainedTokenizerFast, messages: list[dict[str, str]]) -> list[int] | None:
    """None where the template refuses these turns."""
    try:
        return list(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))
    except Exception:  # noqa: BLE001 (whatever a template raises)
        return None


@pytest.fixture(params=TEMPLATES)
def family(request: pytest.FixtureRequest, folder: Path, server: Any) -> str:
    """A family of models, whose template the checkpoint has."""
    template = TEMPLATES[request.param]
    server.checkpoint.tokenizer.chat_template = template
    (folder / "chat_template.jinja").write_text(template)
    return str(request.param)


def test_each_road_gives_the_prompt_of_the_template(
    family: str, folder: Path, server: Any, submitted: list[list[int]], tmp_path: Path, one_thread: None
) -> None:
    tokenizer, far = PreTrainedTokenizerFast.from_pretrained(folder), remote.connect(server.url)
    taken = 0
    for pairs in CONVERSATIONS.values():
        messages = turns(*pairs)
        ids = expected(tokenizer, messages)
        answer = server.post(json={"messages": messages, "max_tokens": 1})
        assert answer.status_code == (400 if ids is None else 200), answer.text
        if ids is None:
            continue
        taken += 1
        assert submitted.pop() == ids, "the endpoint"
        if all(message["content"].strip() for message in messages):
            assert list(trained(tokenizer, messages, tmp_path)[: len(ids)]) == ids, "training"
        earlier = [Turn(prompt=one["content"], answer=two["content"]) for one, two in pairwise(messages)]
        if messages[0]["role"] == "user":
            for checkpoint in (server.checkpoint, far):
                assert prompt_ids(checkpoint, messages[-1]["content"], 1, earlier) == ids, "the page"
        if len(messages) == 1:
            assert written(folder, messages[0]["content"], tmp_path) == ids, "the command line"
    assert taken >= 2


def pairwise(messages: list[dict[str, str]]) -> list[tuple[dict[str, str], dict[str, str]]]:
    """Questions with their answers, of a conversation that begins with a question."""
    return list(zip(messages[:-1:2], messages[1:-1:2], strict=True)) if messages[0]["role"] == "user" else []


def trained(tokenizer: PreTrainedTokenizerFast, messages: list[dict[str, str]], tmp_path: Path) -> tuple[int, ...]:
    """What both trainings read, an answer behind the turns."""
    file = tmp_path / "chats.jsonl"
    file.write_text(json.dumps({"messages": [*messages, {"role": "assistant", "content": ANSWER}]}) + "\n")
    [chat] = read_chats(file)
    whole = encode_example(tokenizer, chat, 4096)
    [[first, _]] = whole.answers
    [[adapted], _] = read_conversations(tokenizer, [str(file)], 4096)
    assert adapted.ids == whole.ids
    assert first == len(expected(tokenizer, messages) or ())
    return whole.ids


def written(folder: Path, prompt: str, tmp_path: Path) -> list[int]:
    """What `mars.generate` reads until it writes its one token, by the traces of its passes."""
    file = tmp_path / "records.jsonl"
    words = ["--checkpoint", str(folder), "--prompt", prompt, "--max-new-tokens", "1", "--decoder", "autoregressive"]
    assert main([*words, "--records", str(file), "--trace"]) == 0
    with file.open(encoding="utf-8") as lines:
        traces = [from_json(line).rows[0].trace for line in lines]
    return [token_id for trace in traces if trace for token_id in trace.ids]


@pytest.mark.parametrize("family", ["llama3", "zephyr"], indirect=True)
def test_the_beginning_is_read_once(family: str, server: Any, submitted: list[list[int]]) -> None:
    """One template writes it, the other does not; a text that says it is a text."""
    tokenizer = server.checkpoint.tokenizer
    begins = tokenizer.bos_token_id
    assert tokenizer("x")["input_ids"].count(begins) == 1
    by_template = int(family == "llama3")
    for content in ("hi", "<s>hi", "<s>"):
        server.post(json={"messages": [{"role": "user", "content": content}], "max_tokens": 1})
        server.post("completions", json={"prompt": content, "max_tokens": 1})
        chat, text = submitted[-2:]
        assert (chat.count(begins), text.count(begins)) == (by_template, 1)
        assert text[0] == begins
    server.post("completions", json={"prompt": [begins, 40], "max_tokens": 1})
    assert submitted[-1] == [begins, 40]


def test_lm_eval_asks_for_completions_with_one_beginning(
    server: Any, submitted: list[list[int]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As text the endpoint puts it there; as ids the client does, told to, or the template."""
    pytest.importorskip("lm_eval", reason="requirements-eval.txt is not installed")
    from lm_eval.api.instance import Instance
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    monkeypatch.setenv("NO_PROXY", "*")
    server.checkpoint.tokenizer.chat_template = TEMPLATES["llama3"]
    (folder / "chat_template.jinja").write_text(TEMPLATES["llama3"])
    begins = server.checkpoint.tokenizer.bos_token_id
    address = {"base_url": f"{server.url}/v1/completions", "model": server.name, "max_retries": 1}
    options = {"until": ["\n\n"], "max_gen_toks": 2, "temperature": 0.0}
    for tokenized, template in ((False, False), (True, False), (True, True)):
        lm = LocalCompletionsAPI(
            **address,
            tokenizer=str(folder),
            tokenized_requests=tokenized,
            add_bos_token=tokenized and not template,
        )
        context = lm.apply_chat_template([{"role": "user", "content": "hi"}]) if template else "hi"
        lm.generate_until(
            [Instance(request_type="generate_until", doc={}, arguments=(context, options), idx=0)], disable_tqdm=True
        )
        assert submitted[-1].count(begins) == 1
        assert submitted[-1][0] == begins


def test_a_relaxed_answer_is_one_text(served: Any, serve: Callable[..., Any]) -> None:
    """Also beside others, and where the server names it; a layout that adapts to the clock is for those who name it."""
    from concurrent.futures import ThreadPoolExecutor

    question = "Ana saves 5 dollars each week for 4 weeks and then spends 6 dollars on books. How many are left?"
    usual = {"decoder": "relaxed", "threshold": 0.1}
    body = {"messages": [{"role": "user", "content": question}], "max_tokens": 40, "records": True}
    ways = [(served, {**body, **usual}), (serve(usual=usual), body)]
    alone = [server.post(json=asked).json() for server, asked in ways * 2]
    with ThreadPoolExecutor(6) as threads:
        together = [found.json() for found in threads.map(lambda way: way[0].post(json=way[1]), ways * 3)]
    texts = {found["choices"][0]["message"]["content"] for found in [*alone, *together]}
    passes = {found["mars"]["passes"] for found in alone}
    assert (len(texts), len(passes)) == (1, 1)
