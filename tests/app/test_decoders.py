from dataclasses import fields

from app import decoders
from app.lane_choice import LaneChoice
from mars.decoding import DECODERS


def test_the_names_are_those_of_the_table() -> None:
    assert decoders.names() == tuple(DECODERS)


def test_every_decoder_of_the_table_is_known() -> None:
    assert decoders.FACTS.keys() == DECODERS.keys()


def test_what_acts_on_a_decoder_can_be_chosen() -> None:
    assert {field.name for field in fields(LaneChoice)} - {"checkpoint", "decoder"} == decoders.ALL_SETTINGS


def test_a_decoder_that_comes_later_may_read_everything() -> None:
    facts = decoders.facts("tree_search")
    assert (facts.title, facts.family, facts.settings) == ("Tree search", "masks", decoders.ALL_SETTINGS)
