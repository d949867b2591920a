"""Stop strings and the bytes of tokens, without a server."""

from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from mars.chat import encode_text
from mars.checkpoint import Checkpoint
from mars.records import ForwardPass, Proposal, RowPass
from mars.serve.answers import LOWEST_LOGPROB, Bodies, Candidates, StopStrings, Writer

LETTERS = st.text("ab", max_size=12)


@given(LETTERS, st.lists(st.text("ab", min_size=1, max_size=4), max_size=3), st.lists(st.integers(0, 12), max_size=5))
def test_any_text_is_cut_before_its_stop(text: str, stops: list[str], cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    found = StopStrings(stops)
    shown = "".join(found.add(text[begin:end]) for begin, end in pairwise(places))
    shown += "" if found.found else found.flush()
    ends = [place for stop in stops if (place := text.find(stop)) >= 0]
    assert found.found == bool(ends)
    if not ends:
        assert shown == text
    else:
        # A shorter stop string is seen as soon as it is there, though one that began earlier might still have come.
        assert text.startswith(shown)
        assert any(text[len(shown) :].startswith(stop) for stop in stops)


def test_only_beginnings_of_stop_strings_are_held() -> None:
    found = StopStrings(["END", "##"])
    assert found.add("a E") == "a "
    assert found.add("N") == ""
    assert found.add("d #") == "ENd "
    assert found.add("#x") == ""
    assert found.found
    assert found.add("more") == ""


def _pass(ids: list[int], reason: Any = None) -> ForwardPass:
    proposals = tuple(Proposal(token, 0.5, "clean") for token in ids)
    return ForwardPass(0, "decode", 0.01, 1, (RowPass(0, 0, proposals, len(ids), None, reason),))


TEXT = "Copy: 👩‍🚀 é 日本 — <0x04> the  end."


def sentence_piece() -> Any:
    """A model with pieces and bytes, as SentencePiece has them: only the tokenizer is asked."""
    pieces = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁Copyéthend.:", "▁t", "th", "▁th"]
    ids = {piece: number for number, piece in enumerate(pieces)}
    merges = [("▁", "t"), ("t", "h"), ("▁t", "h")]
    made = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(steps)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="</s>", unk_token="<unk>")
    engine = SimpleNamespace(stop_token_ids=frozenset({1}))
    decode = partial(tokenizer.decode, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    encode = partial(encode_text, tokenizer)
    return SimpleNamespace(tokenizer=tokenizer, engine=engine, decode=decode, encode_text=encode)


@pytest.fixture(params=["bytes", "pieces"])
def model(request: pytest.FixtureRequest, checkpoint: Checkpoint) -> Any:
    return checkpoint if request.param == "bytes" else sentence_piece()


def logprobs(model: Any, text: str, stops: list[str], each: int, candidates: int = 4) -> tuple[str, Any, Any]:
    """Text, log-probabilities of a completion and of a chat; `each` tokens come in a pass, every third is drawn."""
    ids = model.encode_text(text)
    writer = Writer(model, stops, candidates)
    completion, chat = (Bodies("m", 1, chat=chat, logprobs=True, records=False) for chat in (False, True))
    proposals = []
    for number, token in enumerate(ids):
        others = [(other, 0.01) for other in range(2, 2 + candidates)]
        likely = others if number % 3 == 2 else [(token, 0.5), *others[: candidates - 1]]
        proposals.append(Proposal(token, 0.5, "clean", tuple(likely)))
    pieces = []
    for start in range(0, len(ids), each):
        part = tuple(proposals[start : start + each])
        reason = "length" if start + each >= len(ids) else None
        pieces.append(writer.add(ForwardPass(0, "decode", 0.01, 1, (RowPass(0, 0, part, len(part), None, reason),))))
        if pieces[-1].finish:
            break
    [first], [second] = (bodies.whole(pieces, writer.tally)["choices"] for bodies in (completion, chat))
    return first["text"], first["logprobs"], second["logprobs"]["content"]


@pytest.mark.parametrize("stop", ["", "the", " é 日", "本 —", "🚀", "e", "nd.", ":"])
def test_log_probabilities_fit_the_text(model: Any, stop: str) -> None:
    for each in (1, 3, 50):
        fits(model, stop, each)


def fits(model: Any, stop: str, each: int) -> None:
    text, completion, chat = logprobs(model, TEXT, [stop] if stop else [], each=each)
    assert text == (TEXT[: TEXT.index(stop)] if stop else TEXT)
    assert "".join(completion["tokens"]) == text
    for token, offset in zip(completion["tokens"], completion["text_offset"], strict=True):
        assert offset <= len(text)
        assert text[offset:].startswith(token)
    joined = bytes(byte for one in chat for byte in one["bytes"])
    assert joined.decode() == text
    for token, chance, listed, one in zip(
        completion["tokens"], completion["token_logprobs"], completion["top_logprobs"], chat, strict=True
    ):
        assert len(listed) >= 4
        assert listed[token] == chance
        assert len(one["top_logprobs"]) in (4, 5)
        assert {name: one[name] for name in ("token", "logprob", "bytes")} in one["top_logprobs"]


def test_candidates_stand_where_the_token_does() -> None:
    model = sentence_piece()
    word = model.tokenizer.convert_tokens_to_ids("▁th")
    writer = Writer(model, [], 2)
    for ids, token in ((model.encode_text("Copy"), "y"), ([word], " th")):
        found = writer.add(_pass(ids)).logprobs[-1]
        assert (found.token, bytes(found.bytes)) == (token, token.encode())
        assert found.top_logprobs[0].token == token


def test_an_impossible_token_has_the_lowest_log_probability(checkpoint: Checkpoint) -> None:
    assert Candidates(checkpoint).of(5, "x", 0.0).logprob == LOWEST_LOGPROB


@pytest.mark.parametrize(("reason", "finish"), [("length", "length"), ("stop", "stop")])
def test_what_was_held_back_comes_at_the_end(checkpoint: Checkpoint, reason: str, finish: str) -> None:
    writer = Writer(checkpoint, ["three!"], None)
    first = writer.add(_pass(checkpoint.encode_text("one thr")))
    last = writer.add(_pass(checkpoint.encode_text("ee"), reason))
    assert first.text + last.text == "one three"
    assert last.finish == finish
