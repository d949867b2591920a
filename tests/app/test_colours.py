"""The two tints of the bands for those who see colours otherwise, on a grey print, and the words that stand on them.

Colours are simulated as Machado, Oliveira and Fernandes (2009) do for the whole lack of one kind of cone. L* is CIE's
lightness, from 0 to 100; a difference of 2.3 is just seen. On a grey print L* is all that is left.
"""

import re
from collections.abc import Mapping

import pytest

from app.browser.bundle import ROOT

Colour = tuple[float, float, float]  # linear light, from 0 to 1
SEEN_AS = {
    "all colours, or a grey print": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
SHEETS = {
    name: (ROOT / "app/browser/shared" / name).read_text(encoding="utf-8") for name in ("palette.css", "projector.css")
}
LANES = ("ar", "mars", "exact")


def palette(sheet: str, dark: bool) -> dict[str, str]:
    colours = re.findall(r"--lens-([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", SHEETS[sheet])
    assert len(colours) > 15
    return {name: pair[dark] for name, *pair in colours}


LIGHT, DARK = (palette("palette.css", dark) for dark in (False, True))
LOOKS = {
    "light": LIGHT,
    "dark": DARK,
    "projector": LIGHT | palette("projector.css", False),
    "dark projector": DARK | palette("projector.css", True),
}


def linear(text: str) -> Colour:
    parts = [int(text[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return red, green, blue


def luminance(text: str, seen_as: str = "all colours, or a grey print") -> float:
    light = linear(text)
    mixed = (sum(share * part for share, part in zip(row, light, strict=True)) for row in SEEN_AS[seen_as])
    red, green, blue = (min(1.0, max(0.0, part)) for part in mixed)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def lightness(text: str, seen_as: str) -> float:
    share = luminance(text, seen_as)
    return 116 * share ** (1 / 3) - 16 if share > 0.008856 else 903.3 * share


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("seen_as", SEEN_AS)
@pytest.mark.parametrize("looks", LOOKS)
def test_neighbouring_bands_differ_in_lightness(looks: str, seen_as: str) -> None:
    colours = LOOKS[looks]
    for lane in LANES:
        odd, even = (lightness(colours[f"{lane}-{tint}"], seen_as) for tint in ("odd", "even"))
        assert abs(odd - even) >= 6, lane
        assert abs(odd - lightness(colours["card"], seen_as)) >= 4.5, lane  # a band from the ground that it stands on


@pytest.mark.parametrize("looks", LOOKS)
def test_words_on_bands_have_contrast_aa(looks: str) -> None:
    colours: Mapping[str, str] = LOOKS[looks]
    for lane in LANES:
        for ground in (colours[f"{lane}-odd"], colours[f"{lane}-even"], colours["card"], colours["paper"]):
            assert contrast(colours["ink"], ground) >= 7, lane
            assert contrast(colours[lane], ground) >= 4.5, lane  # the number of tokens at the end of a band
    for ground in (colours["card"], colours["paper"]):
        assert all(contrast(colours[word], ground) >= 4.5 for word in ("muted", "accent", "right", "wrong"))
    assert contrast(colours["on-accent"], colours["accent"]) >= 4.5
