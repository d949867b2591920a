"""From a plan to runs: what is multiplied out, what is left as it is, and what their ids say."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from analysis.sweeps.jobs import Job, turns_of
from analysis.sweeps.models import describe
from analysis.sweeps.plan import Group, SweepPlan
from mars_tasks import SEED_STRIDE, sample


@pytest.fixture
def plain_folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """The same weights without a training record: nobody trained masks."""
    folder = tmp_path / "plain"
    shutil.copytree(tiny_folder, folder)
    (folder / "mars.json").unlink()
    return folder


def group(source: Path, decoder: str, **more: Any) -> Group:
    given: dict[str, Any] = {"name": "g", "problems": 3, "seed": 7, "tasks": ("logic", "table_lookup"), "device": "cpu"}
    return Group(**{**given, "checkpoints": (str(source),), "decoders": (decoder,), **more})


def jobs(*groups: Group) -> list[Job]:
    return [job for turn in turns_of(SweepPlan(name="p", groups=groups)) for job in turn]


def test_what_is_said_of_a_model(tiny_folder: Path, plain_folder: Path) -> None:
    found, plain = describe(str(tiny_folder)), describe(str(plain_folder))
    assert found["parameters"] > 10_000
    assert (found["name"], found["stage"], found["block_size"], found["sft_loss"]) == ("tiny-mars", "mars", 4, True)
    assert (plain["name"], plain["stage"], plain["block_size"], plain["sft_loss"]) == ("plain", None, None, None)
    assert found["fingerprint"] == plain["fingerprint"]
    weights = plain_folder / "model.safetensors"
    changed = bytearray(weights.read_bytes())
    changed[-1] ^= 1
    weights.write_bytes(bytes(changed))
    assert describe(str(plain_folder))["fingerprint"] != found["fingerprint"]
    assert describe(str(plain_folder))["parameters"] == found["parameters"]


def test_weights_that_are_missing_or_damaged(plain_folder: Path) -> None:
    (plain_folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"model\.safetensors cannot be read"):
        describe(str(plain_folder))
    (plain_folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="give a folder that holds weights"):
        describe(str(plain_folder))


def test_a_setting_says_all_there_is_to_it(tiny_folder: Path) -> None:
    [job] = jobs(group(tiny_folder, "sliding_window", thresholds=(0.9,), max_new_tokens=9))
    setting = job.setting
    assert job.id.startswith("tiny-mars.sliding_window@0.9-b4.b16.")
    assert (setting["settings"]["block_size"], setting["settings"]["threshold"]) == (4, 0.9)
    assert setting["settings"]["max_new_tokens"] == 9
    assert (setting["dtype"], setting["device"], setting["tasks"]) == ("float32", "cpu", ["logic", "table_lookup"])
    assert (setting["timed"], setting["group"], setting["draft"]) == (False, None, None)


def test_lists_are_multiplied_out(tiny_folder: Path) -> None:
    found = jobs(
        group(
            tiny_folder,
            "sliding_window",
            thresholds=(None, 0.9),
            scores=("probability", "margin"),
            block_sizes=(2, 4),
            extra_proposal=(False, True),
            batch_sizes=(1, 16),
        )
    )
    assert len({job.id for job in found}) == len(found) == 2**5
    words = {job.id.rpartition(".")[0] for job in found}
    assert "tiny-mars.sliding_window@none-b2-margin-extra.b1" in words


def test_what_a_decoder_does_not_take_multiplies_nothing(tiny_folder: Path) -> None:
    several = group(tiny_folder, "autoregressive", decoders=("autoregressive", "sliding_window"), thresholds=(0.5, 0.6))
    found = jobs(several)
    assert [job.setting["decoder"] for job in found] == ["autoregressive", "sliding_window", "sliding_window"]
    assert found[0].setting["settings"]["threshold"] is None


def test_the_same_setting_is_one_run(tiny_folder: Path) -> None:
    exact = {"decoder": "self_speculative", "layouts": ("quadratic",)}
    found = jobs(group(tiny_folder, **exact), group(tiny_folder, **exact, name="h"))
    assert len(found) == 1
    assert len(jobs(group(tiny_folder, **exact), group(tiny_folder, **exact, seed=8))) == 2


def test_drafts_and_the_threshold_that_nobody_reads(tiny_folder: Path, plain_folder: Path) -> None:
    drafts = (str(plain_folder), str(tiny_folder))
    found = jobs(group(tiny_folder, "speculative", drafts=drafts))
    told = [(job.setting["draft"]["name"], job.settings.threshold) for job in found]
    assert told == [("plain", None), ("tiny-mars", 0.95)]
    assert ".speculative@0.95-b4-k4-tiny-mars.b16." in found[1].id


@pytest.mark.parametrize(
    ("decoder", "more", "words"),
    [
        ("sliding_window", {}, "group g: sliding_window needs a checkpoint of stage mars, and that of .* is None"),
        ("autoregressive", {"dtype": "float8"}, "group g: dtype must be one of"),
        ("autoregressive", {"max_new_tokens": 0}, "group g: max_new_tokens must be >= 1"),
        ("autoregressive", {"checkpoints": ("nowhere",)}, "group g: there is no folder nowhere"),
    ],
)
def test_what_cannot_run(decoder: str, more: dict[str, Any], words: str, plain_folder: Path) -> None:
    with pytest.raises(ValueError, match=words):
        jobs(group(plain_folder, decoder, **more))


def test_chunks_go_through_the_families_in_turn(tiny_folder: Path) -> None:
    [job] = jobs(group(tiny_folder, "autoregressive", chunk=4, batch_sizes=(2,)))
    assert (len(job.questions), job.chunks) == (6, 2)
    assert [list(job.places(chunk)) for chunk in range(2)] == [[0, 1, 2, 3], [4, 5]]
    found = [job.questions.question(place) for place in range(6)]
    assert [(task, number) for task, number, _ in found] == [
        (task, number) for number in range(3) for task in ("logic", "table_lookup")
    ]
    assert found[3].turns == (sample("table_lookup", 7 * SEED_STRIDE + 1).prompt,)
