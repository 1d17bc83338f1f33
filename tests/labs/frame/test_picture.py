"""Pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from regard.labs.frame.picture import pictures, write_pictures


def test_a_picture_is_svg_and_png_and_the_same_again(measured, tmp_path):
    result = measured("masks")
    svg, png = pictures(result)
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert png.startswith(b"\x89PNG")
    assert pictures(result)[0] == svg
    write_pictures(result, tmp_path)
    assert (tmp_path / "masks.svg").read_bytes() == svg
    assert (tmp_path / "masks.png").read_bytes() == png


def test_lines_on_logarithmic_axes(measured):
    assert b"<svg" in pictures(measured("gradient"))[0]
