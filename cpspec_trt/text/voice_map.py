"""``voice_map.json`` beside a Talker's engine: names of one's own for the speakers of a checkpoint.

The file is one JSON object, ``{"narrator": "ryan"}``. Names are compared without regard to case, as those of speakers
are. A name of the map wins over a speaker of the checkpoint that has the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from cpspec_trt.errors import InputFileError
from cpspec_trt.files.engine_config import OmniTalkerConfig, TalkerConfig, read_config_of
from cpspec_trt.files.json_io import read_json
from cpspec_trt.text.voices import unknown_name

VOICE_MAP = "voice_map.json"
_Talker = TypeVar("_Talker", TalkerConfig, OmniTalkerConfig)


@dataclass(frozen=True, slots=True)
class VoiceMap:
    """Name of one's own -> speaker of the checkpoint, both in lower case; empty where there is no file."""

    path: Path
    names: Mapping[str, str]

    @classmethod
    def read(cls, talker: Path) -> VoiceMap:
        """Read the file of a Talker's directory.

        Raises:
            InputFileError: it is damaged, or a name stands for no text; names file, field, value and remedy.
        """
        path = talker / VOICE_MAP
        if not path.exists() and not path.is_symlink():
            return cls(path, MappingProxyType({}))
        names: dict[str, str] = {}
        for own, speaker in read_json(path, InputFileError, "voice map").items():
            if not isinstance(speaker, str) or not speaker.strip() or not own.strip():
                raise InputFileError(
                    f"{path}: {own!r:.60} is {speaker!r:.60}; "
                    'write a name and the speaker it stands for, as {"narrator": "ryan"}'
                )
            if own.lower() in names:
                raise InputFileError(f"{path}: the name {own.lower()!r:.60} stands twice; case makes no difference")
            names[own.lower()] = speaker.lower()
        return cls(path, MappingProxyType(names))

    def added_to(self, config: _Talker) -> _Talker:
        """A Talker's config whose speakers have the names of the map too; a speaker's dialect goes with it.

        Raises:
            InputFileError: a name stands for a speaker that the checkpoint does not have.
        """
        if not self.names:
            return config
        own = {name.lower(): codec_id for name, codec_id in config.speakers.items()}
        if not own:
            raise InputFileError(f"{self.path}: this checkpoint has no named speakers; remove the file")
        for name, speaker in self.names.items():
            if speaker not in own:
                raise InputFileError(f"{self.path}: {unknown_name(repr(name), speaker, own)}")
        speakers = MappingProxyType(own | {name: own[speaker] for name, speaker in self.names.items()})
        if isinstance(config, OmniTalkerConfig):
            return replace(config, speakers=speakers)
        home = {name.lower(): dialect for name, dialect in config.dialects.items()}
        of_names = {name: home[speaker] for name, speaker in self.names.items() if speaker in home}
        kept = {name: dialect for name, dialect in home.items() if name not in self.names}
        return replace(config, speakers=speakers, dialects=MappingProxyType(kept | of_names))


def read_talker(directory: Path, kind: type[_Talker]) -> _Talker:
    """The config of a Talker's engine, the names of its ``voice_map.json`` among the speakers.

    Raises:
        EngineError: as ``read_config_of``.
        InputFileError: the map is damaged or names a speaker that the checkpoint does not have.
    """
    return VoiceMap.read(directory).added_to(read_config_of(directory, kind))
