"""Values that no request may have, for the fields that the request files of both families share."""

from __future__ import annotations

from typing import Any

BIG = 10**400


def cases(names: str, *values: Any) -> list[tuple[str, Any]]:
    """Every name with every value."""
    return [(name, value) for name in names.split() for value in values]


SPEECH = [
    *cases("talker_temperature subtalker_temperature", -0.1, "1", True, BIG, 1e39, 1e-40, [], None),
    *cases("talker_top_k subtalker_top_k", -1, 1.5, "5", True, BIG, None),
    *cases("talker_top_p subtalker_top_p", -0.1, "1", False, BIG, None),
    *cases("repetition_penalty", 0, -1, 1e-30, 0.00099, 1000.1, 1e30, 1e39, "1", True, None),
    *cases("max_audio_length", 0, -1, 1.5, 2**31, BIG, "5", True, None),
    *cases("sampling_seed", -1, 2**64, 0.5, "42", True, None),
    *cases("do_sample subtalker_do_sample", 1, "no", None),
    *cases("speaker", 1, ["ryan"], None, "\udfff"),
]
