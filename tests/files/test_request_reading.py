"""What both request readers share: how values are shown and seeds are derived."""

from __future__ import annotations

from typing import Any

import pytest

from cpspec_trt.files.request_reading import effective_seed, shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1}, "an object"),
        ([1], "a list"),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ("it's\n", '"it\'s\\n"'),
        ("x" * 58, f"'{'x' * 58}'"),
        ("x" * 59, f"'{'x' * 49}… (61 characters)"),
    ],
)
def test_a_value_is_shown_printable_and_short(value: Any, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("own", "of_file", "index", "seed"),
    [
        (None, None, 0, 42),
        (None, None, 3, 45),
        (None, 0, 3, 3),
        (7, 100, 3, 7),
        (0, 100, 3, 0),
        (None, 2**64 - 1, 1, 0),
    ],
)
def test_a_seed_is_the_requests_own_or_the_files_plus_the_position(
    own: int | None, of_file: int | None, index: int, seed: int
) -> None:
    assert effective_seed(own, of_file, index) == seed
