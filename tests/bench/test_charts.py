"""Results as pictures. What they look like was looked at; here it is checked that they are drawn, and of what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

from cpspec_trt.bench import charts
from cpspec_trt.bench.charts import draw_charts
from cpspec_trt.errors import UsageError
from tests.bench.results import code2wav_result, result, setting


def drawn(found: dict[str, Any], path: Path) -> np.ndarray:
    draw_charts(found, path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n")
    return np.asarray(matplotlib.image.imread(path))


def test_a_result_is_drawn_in_colours_and_the_same_again(tmp_path: Path) -> None:
    first = drawn(result(), tmp_path / "first.png")
    assert first.shape[0] > 400
    assert first.shape[1] > 1200
    assert len(np.unique(first.reshape(-1, first.shape[2]), axis=0)) > 50
    np.testing.assert_array_equal(first, drawn(result(), tmp_path / "again.png"))


@pytest.mark.parametrize(
    "change",
    [
        {"settings": [setting("off", 1.0), setting("2", 1.1), setting("3", 0.8)]},
        {"synthetic": {"configuration": "0.6B", "acceptance": 0.5}},
        {"stage": "code_predictor"},
        {"laws": None},
    ],
    ids=["speed-up", "label", "stage", "laws"],
)
def test_what_differs_in_the_result_differs_in_the_picture(change: dict[str, Any], tmp_path: Path) -> None:
    before, after = drawn(result(), tmp_path / "before.png"), drawn(result(**change), tmp_path / "after.png")
    assert before.shape != after.shape or (before != after).any()


def test_what_a_device_does_not_tell_is_left_out(tmp_path: Path) -> None:
    unexamined = {"predicted_speedup": None, "acceptance_by_depth": None, "frame_loop": None}
    settings = [setting("off", 1.0, **unexamined), setting("2", 1.2, **unexamined)]
    assert drawn(result(settings=settings, laws=None, passes=None), tmp_path / "device.png").size


def test_code2wav_has_a_picture_of_its_own(tmp_path: Path) -> None:
    assert drawn(code2wav_result(), tmp_path / "code2wav.png").size


def test_without_matplotlib_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'cpspec-trt\[plots\]'"):
        draw_charts(result(), tmp_path / "never.png")
    assert not (tmp_path / "never.png").exists()
