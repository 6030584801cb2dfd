"""Ids of the Talker's codec vocabulary: codes first, then tags, languages and speakers.

Both families publish the same offsets behind the codebook, so an id here is ``codebook_size`` + offset.
"""

from __future__ import annotations

from collections.abc import Mapping

# Behind the codebook the Talker's vocabulary keeps this many ids for tags, languages and speakers.
TAG_IDS = 1024

_EOS = 102
_THINK = "codec_think_id"  # Qwen3-Omni never thinks before it speaks
TTS_TAGS: Mapping[str, int] = {
    "codec_pad_id": 100,
    "codec_bos_id": 101,
    "codec_eos_token_id": _EOS,
    _THINK: 106,
    "codec_nothink_id": 107,
    "codec_think_bos_id": 108,
    "codec_think_eos_id": 109,
}
OMNI_TAGS: Mapping[str, int] = {name: offset for name, offset in TTS_TAGS.items() if name != _THINK}


def codec_eos_id(codebook_size: int) -> int:
    """The codec id that ends speech."""
    return codebook_size + _EOS


def shifted(offsets: Mapping[str, int], codebook_size: int) -> dict[str, int]:
    """Names with their ids."""
    return {name: codebook_size + offset for name, offset in offsets.items()}
