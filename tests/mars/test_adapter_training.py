"""Training an adapter: anchors, the loss and its slow twin, the masks' pass and its slow twin, whole runs."""

import copy
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM, TrainingArguments

from analysis.sweeps.models import describe
from mars.checkpoint import load_checkpoint
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.engine import ModelEngine
from mars.engine.linear import linear_of
from mars.metrics import output_ids
from mars.training.__main__ import main, parser
from mars.training.adapter import SCALE, AdapterModel, AnchorCollator, TeacherLoss
from mars.training.adapter_run import AdapterTrainer, examples_seen
from mars.training.data import Conversation
from mars.training.trainer import NumberedConversations, Pace
from tests.forked import LIMIT, forked
from tests.mars.tiny import sizes


def _llama() -> LlamaForCausalLM:
    torch.manual_seed(3)
    ends = {"bos_token_id": None, "eos_token_id": 2, "tie_word_embeddings": True}
    layers = sizes(**ends, vocab_size=96, max_position_embeddings=256, initializer_range=0.4)
    return LlamaForCausalLM(LlamaConfig(**layers)).eval()


@pytest.fixture
def model(one_thread: None) -> AdapterModel:
    """An adapter on a random base in float32."""
    return doing(AdapterModel(_llama(), masks=3, rank=2))


def doing(model: AdapterModel) -> AdapterModel:
    """Lets its LoRA already do something."""
    torch.manual_seed(4)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(".b"):
                parameter.normal_(0, 0.2)
    return model


def test_masks_stay_within_their_answer() -> None:
    torch.manual_seed(0)
    collate = AnchorCollator(pad_id=0, masks=4, anchors=5, keep=0.7)
    answers = ((6, 14), (20, 23))
    batch = collate(
        [(0, Conversation(tuple(range(30)), answers)), (1, Conversation((1, 2, 3, 4, 5, 6, 7, 8), ((3, 8),)))]
    )
    assert batch["input_ids"].shape == (2, 30)
    counts = (batch["masks"] // 4).bincount(minlength=10).view(2, 5)
    for row, spans in enumerate((answers, ((3, 8),))):
        for anchor, count in zip(batch["anchors"][row].tolist(), counts[row].tolist(), strict=True):
            if count:
                [end] = [end for first, end in spans if first - 1 <= anchor < end]
                assert 1 <= count <= 4
                assert anchor + 1 + count <= end - 1  # the last mask predicts the last token at the latest


def test_a_batch_has_only_the_anchors_needed() -> None:
    chat = Conversation(tuple(range(30)), ((6, 14), (20, 23)))  # 7 and 2 tokens that the first mask may predict
    batch = AnchorCollator(pad_id=0, masks=4, anchors=640, keep=0.7)([(0, chat), (1, chat)])
    assert batch["anchors"].shape == (2, 9)
    assert {*(batch["masks"] // 4).tolist()} == {*range(18)}


def test_loss_and_gradient_are_soft_cross_entropys() -> None:
    torch.manual_seed(0)
    hidden = torch.randn(7, 5, requires_grad=True)
    vocabulary, ids = torch.randn(11, 5), torch.stack([torch.randperm(11)[:4] for _ in range(7)])
    target = torch.rand(7, 4)
    loss, hits = TeacherLoss.apply(hidden, vocabulary, ids, target)
    loss.backward()
    slow = hidden.detach().clone().requires_grad_()
    logits = slow @ vocabulary.t()
    wanted = -(target * logits.log_softmax(-1).gather(1, ids)).sum()
    wanted.backward()
    torch.testing.assert_close(loss, wanted)
    torch.testing.assert_close(hidden.grad, slow.grad)
    assert torch.equal(hits, logits.argmax(-1) == ids[:, -1])


def adapted(model: AdapterModel) -> LlamaForCausalLM:
    """The slow twin: a copy of the base with the adapter added to its weights."""
    twin = copy.deepcopy(model.base)
    with torch.no_grad():
        for layer, pairs in zip(twin.model.layers, model.pairs, strict=True):
            for name, pair in pairs.items():
                linear_of(layer, name).weight += SCALE * pair.b @ pair.a
    return twin


def computed(counts: list[list[int]]) -> torch.Tensor:
    """The masks of groups of three of which so many are computed."""
    return (torch.arange(3) < torch.tensor(counts)[..., None]).flatten().nonzero()[:, 0]


def test_masks_read_and_learn_what_plain_passes_show(model: AdapterModel) -> None:
    """Each group of masks behind the real tokens' own keys and values alone, and the real tokens, by `transformers`.

    Judged by their own block, masks learn what the base writes behind the tokens that the masks before them proposed.
    """
    twin = adapted(model)
    torch.manual_seed(1)
    ids = torch.randint(3, 96, (2, 14))
    anchors, index = torch.tensor([[2, 5, 8], [3, 4, 0]]), computed([[3, 1, 2], [2, 3, 0]])
    slow, own, written = [], torch.zeros(()), torch.zeros(())
    with torch.no_grad():
        student, masks = model.hidden(ids, anchors, index, model.mask_embeddings.expand(len(index), -1))
        torch.testing.assert_close(student, twin.model(ids).last_hidden_state.flatten(0, 1), atol=1e-4, rtol=1e-4)
        for row, anchor, count in ((0, 2, 3), (0, 5, 1), (0, 8, 2), (1, 3, 2), (1, 4, 3)):
            cache = twin.model(ids[row : row + 1, : anchor + 1], use_cache=True).past_key_values
            embeddings = model.mask_embeddings.expand(3, -1)[None, :count]
            slow.append(twin.model(inputs_embeds=embeddings, past_key_values=cache).last_hidden_state[0])
            log_p = twin.lm_head(slow[-1]).log_softmax(-1)
            read = torch.cat((ids[row, : anchor + 2], log_p.argmax(-1)))
            says = model.base(read[None]).logits[0, anchor + 1 : anchor + 1 + count].argmax(-1)
            says[0] = ids[row, anchor + 2]
            own -= log_p.gather(1, says[:, None]).sum()
            written -= log_p.gather(1, ids[row, anchor + 2 : anchor + 2 + count, None]).sum()
        torch.testing.assert_close(masks, torch.cat(slow), atol=1e-4, rtol=1e-4)
        model.own_block, clean = 0.25, []
        for model.done, wanted in ((0.74, written), (0.75, own)):
            found = model(ids, anchors, index, torch.arange(3, 10))
            torch.testing.assert_close(found["mask_loss"], wanted, atol=1e-3, rtol=1e-4)
            clean.append(found["clean_loss"])
    assert abs(float(own - written)) > 1
    torch.testing.assert_close(*clean, atol=1e-3, rtol=1e-4)


def _gradients(model: AdapterModel, talks: list[Conversation], batch: int) -> tuple[float, list[torch.Tensor]]:
    """Loss and gradient of one step of nine examples, as the Trainer accumulates them, `batch` at a time."""
    collate = AnchorCollator(pad_id=2, masks=3, anchors=4, keep=0.7)
    parts = [collate([*enumerate(talks)][first : first + batch]) for first in range(0, len(talks), batch)]
    arguments = TrainingArguments(output_dir="unused", use_cpu=True, report_to="none")
    trainer = AdapterTrainer(talks, model=model, args=arguments)
    totals = trainer._get_num_items_in_batch(parts, torch.device("cpu"))
    model.zero_grad()
    losses = [trainer.compute_loss(model, part, num_items_in_batch=totals) for part in parts]
    sum(losses).backward()
    return float(sum(losses).detach()), [p.grad.clone() for p in model.parameters() if p.requires_grad]


def test_the_gradient_does_not_depend_on_accumulation(model: AdapterModel) -> None:
    talks = [Conversation(tuple(range(3, 14 + size)), ((4, 11 + size),)) for size in range(9)]
    whole, gradient = _gradients(model, talks, 9)
    for batch in (1, 4):
        loss, parts = _gradients(model, talks, batch)
        assert loss == pytest.approx(whole, rel=1e-5)
        for one, other in zip(gradient, parts, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("steps", "examples"), [(6, 54), (3, 27), (1, 5), (2, 9), (5, 23)])
def test_examples_are_counted_as_read(steps: int, examples: int) -> None:
    assert examples_seen(steps, 9 if steps in (6, 3) else 5, 9) == examples


def test_training_keeps_the_base_and_lowers_loss(model: AdapterModel) -> None:
    torch.manual_seed(1)
    before = {name: value.clone() for name, value in model.named_parameters() if not value.requires_grad}
    batch = {
        "input_ids": torch.randint(3, 96, (2, 20)),
        "anchors": torch.tensor([[3, 6, 9, 12]] * 2),
        "masks": computed([[3, 2, 3, 1]] * 2),
        "before": torch.tensor([*range(3, 18), *range(23, 38)]),
    }
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(12):
        torch.manual_seed(0)
        loss = sum(model(**batch).values()) / 18
        loss.backward()
        assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] - 0.5
    assert all(torch.equal(before[name], value) for name, value in model.named_parameters() if name in before)
    assert set(model.state_dict()) == {name for name, value in model.named_parameters() if value.requires_grad}


def _merged_loss(sft_weight: float, before: Sequence[int] = range(4, 12)) -> torch.Tensor:
    """The loss of a merged adapter that does something, on one batch."""
    torch.manual_seed(5)
    model = doing(AdapterModel(_llama(), masks=3, rank=2, sft_weight=sft_weight))
    torch.manual_seed(1)
    ids = torch.randint(3, 96, (2, 16))
    anchors, index, places = torch.tensor([[4, 8]] * 2), computed([[3, 2], [1, 0]]), torch.tensor([*before])
    loss = sum(model(ids, anchors, index, torch.cat((places, 16 + places))).values())
    loss.backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
    return loss.detach()


def test_real_tokens_are_held_as_much_as_asked(one_thread: None) -> None:
    """With weight 0 real tokens still pass the adapter, whose gradient comes from the masks that read them."""
    alone, once, twice = map(_merged_loss, (0, 1, 2))
    assert alone < once - 1
    torch.testing.assert_close(twice - alone, 2 * (once - alone))


def test_every_token_of_an_answer_is_held(one_thread: None) -> None:
    """The last one too, its end, which no mask behind an anchor needs as a real token."""
    batch = AnchorCollator(pad_id=0, masks=3, anchors=2, keep=0.7)([(0, Conversation(tuple(range(30)), ((6, 14),)))])
    assert batch["before"].tolist() == [*range(5, 13)]
    assert _merged_loss(1, range(4, 12)) > _merged_loss(1, range(4, 11))


def test_plain_sft_is_cross_entropy_of_the_answers(one_thread: None) -> None:
    """The slow twin: all logits at once."""
    model = doing(AdapterModel(_llama(), masks=0, rank=2))
    talks = [Conversation(tuple(range(3, 20)), ((5, 9), (12, 17))), Conversation(tuple(range(30, 41)), ((6, 11),))]
    batch = AnchorCollator(pad_id=2, masks=0, anchors=4, keep=0.7)([*enumerate(talks)])
    assert batch["before"].tolist() == [4, 5, 6, 7, 11, 12, 13, 14, 15, *(17 + place for place in range(5, 10))]
    assert (batch["anchors"].shape, len(batch["masks"])) == ((2, 0), 0)
    loss = model(**batch)["clean_loss"]
    loss.backward()
    assert "mask_embeddings" not in model.state_dict()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
    twin, wanted = adapted(model), torch.zeros(())
    with torch.no_grad():
        for talk in talks:
            ids = torch.tensor([talk.ids])
            log_p = twin(input_ids=ids).logits[0].log_softmax(-1)
            wanted -= sum(log_p[place - 1, talk.ids[place]] for span in talk.answers for place in range(*span))
    torch.testing.assert_close(loss.detach(), wanted, atol=1e-3, rtol=1e-4)


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    file = tmp_path / "chats.jsonl"
    answer = {"role": "assistant", "content": "one " * 9}
    turns = [[{"role": "user", "content": f"Add {n}."}, answer] for n in range(6)]
    file.write_text("".join(json.dumps({"name": f"x:{n}", "messages": each}) + "\n" for n, each in enumerate(turns)))
    return file


def test_a_run_writes_an_adapter_and_resumes(
    llama_folder: Path, chats: Path, tmp_path: Path, one_thread: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bit for bit as the unbroken one: the same examples, anchors, rates and optimizer. Other ones are refused."""
    output = tmp_path / "adapter"
    command = ["adapter", "--base", str(llama_folder), "--data", str(chats), "--output", str(output), "--masks", "3"]
    command += ["--rank", "2", "--anchors", "4", "--save-steps", "2", "--epochs", "2"]
    assert main([*command, "--batch-size", "2"]) == 0
    record = json.loads((output / "mars.json").read_text())
    assert (record["stage"], record["block_size"], record["measured"]["steps"]) == ("adapter", 4, 6)
    weights = load_file(output / "adapter_model.safetensors")
    assert weights["base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"].shape == (2, 32)
    assert {value.dtype for value in weights.values()} == {torch.bfloat16}
    masks = load_file(output / "masks.safetensors")
    assert {name: tensor.shape for name, tensor in masks.items()} == {"mask_embeddings": (1, 32)}
    last = output / "work" / "checkpoint-6"
    unbroken = load_file(last / "model.safetensors")
    shutil.rmtree(last)
    assert main([*command, "--batch-size", "3", "--resume"]) == 2
    assert "batch_size must be 2 as before, got 3" in capsys.readouterr().err
    assert main([*command, "--batch-size", "2", "--gradient-accumulation", "2", "--resume"]) == 2
    assert "gradient_accumulation must be 1 as before, got 2: " in capsys.readouterr().err
    for file, name in ((chats, "data"), (llama_folder / "model.safetensors", "base")):
        whole = file.read_bytes()
        file.write_bytes(whole.replace(b"Add 3.", b"Add 9.") if name == "data" else whole[:-4] + bytes(4))
        assert main([*command, "--batch-size", "2", "--resume"]) == 2
        assert f"{name} must be " in capsys.readouterr().err
        file.write_bytes(whole)
    assert main([*command, "--batch-size", "2", "--resume"]) == 0
    resumed = load_file(last / "model.safetensors")
    assert all(torch.equal(resumed[name], value) for name, value in unbroken.items())


def test_a_timed_run_pauses_and_reads_on(
    llama_folder: Path, chats: Path, tmp_path: Path, one_thread: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that goes on reads what earlier calls have not read, and counts their seconds."""
    numbers: list[int] = []
    read = NumberedConversations.__getitem__
    monkeypatch.setattr(NumberedConversations, "__getitem__", lambda self, n: (numbers.append(n), read(self, n))[1])
    output = tmp_path / "adapter"
    command = ["adapter", "--base", str(llama_folder), "--data", str(chats), "--output", str(output), "--masks", "3"]
    command += ["--rank", "2", "--batch-size", "2", "--anchors", "4", "--save-steps", "1000", "--minutes", "1"]
    command += ["--pause-after", "0.00001"]
    seconds = [0.0]
    for call in (1, 2):
        seen = set(numbers[: 2 * (call - 1)])
        numbers.clear()
        assert main([*command, *(["--resume"] if seen else [])]) == 0
        assert numbers
        assert not seen & set(numbers)
        assert json.loads((output / "mars.json").read_text())["measured"]["steps"] == call
        seconds.append(json.loads((output / "work" / f"checkpoint-{call}" / "pace.json").read_text())["seconds"])
    assert seconds[0] < seconds[1] < seconds[2]


def test_kinds_of_adapters_record_their_loss(llama_folder: Path, chats: Path, tmp_path: Path, one_thread: None) -> None:
    command = ["adapter", "--base", str(llama_folder), "--data", str(chats)]
    command += ["--rank", "2", "--batch-size", "2", "--anchors", "4", "--epochs", "0.6"]
    kinds = {"with": ["--masks", "3"], "without": ["--masks", "3", "--sft-weight", "0"], "plain": ["--masks", "0"]}
    for name, options in kinds.items():
        assert main([*command, "--output", str(tmp_path / name), *options]) == 0
    loaded = {name: load_checkpoint(tmp_path / name, dtype="float32", device="cpu") for name in kinds}
    told = {name: describe(str(tmp_path / name)) for name in kinds}
    assert [told[name]["sft_loss"] for name in kinds] == [True, False, None]
    assert [told[name]["stage"] for name in kinds] == ["mars", "mars", "sft"]
    assert {told[name]["examples"] for name in kinds} == {4}
    assert len({told[name]["base"] for name in kinds}) == 1
    assert [loaded[name].supports_masks for name in kinds] == [True, True, False]
    assert (loaded["with"].block_size, loaded["plain"].block_size) == (4, None)
    assert not (tmp_path / "plain" / "masks.safetensors").exists()
    settings = DecodingSettings(max_new_tokens=4)
    assert len(output_ids(DECODERS["autoregressive"](loaded["plain"].engine, [[5, 6]], settings))) > 0
    base = load_checkpoint(llama_folder, dtype="float32", device="cpu").engine
    plain = loaded["plain"].engine
    assert isinstance(base, ModelEngine)
    assert isinstance(plain, ModelEngine)
    before, after = (engine.model.model.layers[1].mlp.down_proj.weight for engine in (base, plain))
    assert not torch.equal(before, after), "the adapter is a part of the weights"
    assert plain.vocab_size == base.vocab_size


def test_the_script_of_the_ablations_asks_for_all(tmp_path: Path) -> None:
    """The script calls a `python` that notes its words, which the parser takes; what is there is left out."""
    script = Path(__file__).parents[2] / "analysis" / "plans" / "real-ablations.sh"
    python, noted = tmp_path / "bin" / "python", tmp_path / "noted"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$*\" >> '{noted}'\n")
    python.chmod(0o755)
    environment = {**os.environ, "OUT": str(tmp_path), "EPOCHS": "0.3", "PATH": f"{python.parent}:{os.environ['PATH']}"}
    for there in (0, 5):
        noted.write_text("")
        subprocess.run(["bash", str(script)], env=environment, check=True, cwd=script.parents[2])
        asked = [parser().parse_args(line.split()[2:]) for line in noted.read_text().splitlines()]
        assert len(asked) == 5 - there
        for each in asked:
            assert (each.stage, each.epochs) == ("adapter", 0.6 if each.masks == 0 else 0.3)
            Path(each.output).mkdir()
            (Path(each.output) / "mars.json").touch()


def test_the_learning_rate_falls_with_the_time() -> None:
    clock = [0.0]
    pace = Pace(1, 0.1, now=lambda: clock[0])
    found = []
    for clock[0] in (0.0, 3.0, 6.0, 33.0, 60.0, 90.0):
        pace.read_clock()
        found.append(round(pace.factor, 3))
    assert found == [0.001, 0.5, 1.0, 0.5, 0.0, 0.0]


def note_the_clock(folder: Path, rank: int) -> int:
    torch.distributed.init_process_group("gloo", f"file://{folder}/met", rank=rank, world_size=2)
    pace = Pace(1, 0.1, now=iter((0.0, 30.0 + 60 * rank)).__next__)
    pace.read_clock()
    (folder / str(rank)).write_text(str(pace.seconds))
    return 0


def test_processes_follow_the_first_ones_clock(tmp_path: Path) -> None:
    told = tmp_path / "told"
    started = [forked(partial(note_the_clock, tmp_path, rank), out=told, err=told) for rank in range(2)]
    for process in started:
        process.join(LIMIT)
    assert [(tmp_path / name).read_text() for name in "01"] == ["30.0", "30.0"], told.read_text()


def test_an_adapter_starts_where_its_base_is() -> None:
    model = AdapterModel(_llama().to("meta"), masks=3, rank=2)
    assert model.mask_embeddings.device.type == "meta"


def test_wrong_settings_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["adapter", "--base", "nowhere", "--data", "none.jsonl", "--output", str(tmp_path / "out")]
    refused = (
        (["--masks", "3", "--block-size", "5"], "block_size must be between 2 and masks + 1 = 4, got 5"),
        (["--pause-after", "3"], "pause_after is for training by the clock: give minutes too"),
        (["--own-block", "1.1"], "own_block must be between 0 and 1, got 1.1"),
        (["--masks", "0", "--block-size", "4"], "masks 0 is plain SFT, without blocks: give no block-size"),
        (["--masks", "0", "--own-block", "0.3"], "masks 0 is plain SFT, without blocks"),
        (["--masks", "-1"], "masks must be >= 0, got -1"),
        (["--sft-weight", "inf"], "sft_weight must be finite, got inf"),
        (["--seed", "20261130"], "seed must be between 0 and 1048575"),
    )
    for options, sentence in refused:
        assert main([*command, *options]) == 2
        assert sentence in capsys.readouterr().err
