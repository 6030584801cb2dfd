"""How much a sequence may grow: what a request asks for, within the KV capacity its prompt leaves."""

from __future__ import annotations

from dataclasses import dataclass

from cpspec_trt.errors import RequestError
from cpspec_trt.files.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Wanted:
    """A cap a request asks for.

    Attributes:
        field: its name in a request file.
        value: positions (frames or tokens) after the prompt.
        explicit: False if it is a default, which gives way with a warning instead of an error.
        unfed: 1 if the last position is never fed back, so that it needs no room.
    """

    field: str
    value: int
    explicit: bool
    unfed: int = 0


def cap_within(manifest: Manifest, prompt: int, wanted: Wanted) -> tuple[int, list[str]]:
    """The cap in force, and warnings.

    Args:
        manifest: of a Talker or Thinker engine.
        prompt: rows of the prompt.
        wanted: what is asked for.

    Raises:
        RequestError: the prompt does not fit, or an explicit cap does not.
    """
    engine = f"the {manifest.component} engine"
    longest = manifest.max_new_positions("context")
    capacity = manifest.max_kv_capacity
    if prompt > longest or prompt >= capacity:
        limit, flag = (longest, "maxInputLen") if prompt > longest else (capacity - 1, "maxKVCacheCapacity")
        raise RequestError(
            f"the prompt has {prompt} rows, {engine} takes {limit}; shorten the text "
            f"or rebuild with cpspec-build --{flag} {prompt + 1}"
        )
    room = capacity - prompt + wanted.unfed
    if wanted.value <= room:
        return wanted.value, []
    need = f"rebuild with cpspec-build --maxKVCacheCapacity {prompt + wanted.value - wanted.unfed}"
    if wanted.explicit:
        raise RequestError(
            f"{wanted.field} is {wanted.value}, but the KV cache of {engine} leaves {room} "
            f"after a prompt of {prompt} rows; lower it or {need}"
        )
    return room, [f"{wanted.field} is {room}: KV capacity {capacity}, prompt {prompt} rows; for more, {need}"]
