"""The compatibility table says what the reader and the command lines really do."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from cpspec_trt.errors import InputFileError
from cpspec_trt.files.compatibility import BUILD, COMMANDS, INFER, OMNI, ROWS, TTS, Row, Where, rows_for
from cpspec_trt.files.omni_requests import OmniRequestFile, read_omni_requests
from cpspec_trt.files.requests import TtsRequestFile, read_tts_requests

MAINS = {INFER: "cpspec_trt.cli.infer", BUILD: "cpspec_trt.cli.build"}
FIELDS: tuple[Where, ...] = ("file field", "request field", "message field", "content item field")
LEVELS: dict[str, tuple[Where, ...]] = {TTS: FIELDS, OMNI: (*FIELDS, "streaming field")}
ROLES = {TTS: "assistant", OMNI: "user"}

# An accepted value of every used field of a request file.
VALID: dict[str, Any] = {
    "batch_size": 2,
    "temperature": 0.6,
    "top_p": 0.5,
    "top_k": 20,
    "max_generate_length": 30,
    "apply_chat_template": False,
    "add_generation_prompt": False,
    "enable_thinking": True,
    "stop": ["end", "."],
    "talker_temperature": 0.7,
    "talker_top_k": 40,
    "talker_top_p": 0.9,
    "repetition_penalty": 1.2,
    "subtalker_temperature": 0.8,
    "subtalker_top_k": 30,
    "subtalker_top_p": 0.7,
    "max_audio_length": 100,
    "speaker": "ryan",
    "language": "english",
    "instruct": "Calm.",
    "non_streaming_mode": False,
    "do_sample": False,
    "talker_do_sample": False,
    "subtalker_do_sample": False,
    "sampling_seed": 7,
}
# Fields that every request file has, and the one that only holds others.
ALWAYS = {"requests", "messages", "role", "content", "type", "text", "streaming"}


def read(tool: str, path: Path) -> TtsRequestFile | OmniRequestFile:
    return read_tts_requests(path, strict=True) if tool == TTS else read_omni_requests(path, strict=True)


def arrived(file: TtsRequestFile | OmniRequestFile, name: str) -> Any:
    """What became of a field of the first request's file."""
    if name == "batch_size":
        return file.batch_size
    if isinstance(file, TtsRequestFile):
        request = file.requests[0]
        holder = request if hasattr(request, name) else request.settings
        return getattr(holder, "seed" if name == "sampling_seed" else name)
    chat = file.requests[0]
    if name == "sampling_seed":
        return chat.seed
    if name == "talker_do_sample":
        return chat.talker.do_sample
    holders = (chat, chat.thinker, chat.talker)  # do_sample is the Thinker's
    value = next(getattr(holder, name) for holder in holders if hasattr(holder, name))
    return list(value) if isinstance(value, tuple) else value


def rows_with(status: str) -> list[Any]:
    """(tool, where, name, row) of every field that a request reader decides by a row of this status."""
    return [
        pytest.param(tool, where, name, row, id=f"{tool}-{where}-{name}")
        for tool, levels in LEVELS.items()
        for where in levels
        for name, row in rows_for(tool, where).items()
        if row.status == status
    ]


def write_with(directory: Path, tool: str, where: Where, name: str, value: Any) -> Path:
    """A request file with one more field at the given level."""
    item: dict[str, Any] = {"type": "text", "text": "Hi."}
    message: dict[str, Any] = {"role": ROLES[tool], "content": [item]}
    request: dict[str, Any] = {"messages": [message]}
    document: dict[str, Any] = {"requests": [request]}
    streaming: dict[str, Any] = {}
    if where == "streaming field":
        document["streaming"] = streaming
    level = {
        "file field": document,
        "request field": request,
        "message field": message,
        "content item field": item,
        "streaming field": streaming,
    }[where]
    level[name] = value
    path = directory / "input.json"
    path.write_text(json.dumps(document))
    return path


def test_no_name_stands_twice_for_one_tool() -> None:
    names = [(row.tool, row.where, name) for row in ROWS for name in (row.name, *row.aliases)]
    assert len(names) == len(set(names))


# Counted by hand from the usage texts and documented inputs of the reference's tools.
@pytest.mark.parametrize(
    ("tool", "where", "count"),
    [
        ("qwen3_tts_inference", "flag", 17),
        ("qwen3_tts_inference", "file field", 18),
        ("qwen3_tts_inference", "request field", 6),
        ("llm_inference", "flag", 42),
        ("llm_inference", "file field", 25),
        ("llm_inference", "request field", 10),
        ("llm_inference", "message field", 2),
        ("llm_inference", "content item field", 8),
        ("llm_inference", "streaming field", 3),
        ("llm_build", "flag", 15),
        ("audio_build", "flag", 9),
    ],
)
def test_the_table_covers_every_name_of_the_reference(tool: str, where: str, count: int) -> None:
    assert sum(row.tool == tool and row.where == where for row in ROWS) == count


@pytest.mark.parametrize(("tool", "where", "name", "row"), rows_with("used"))
def test_a_used_field_is_accepted_in_silence_and_arrives(
    tmp_path: Path, tool: str, where: Where, name: str, row: Row
) -> None:
    if name in ALWAYS:
        file = read(tool, write_with(tmp_path, tool, "file field", "batch_size", 1))
        assert len(file.requests) == 1
    else:
        file = read(tool, write_with(tmp_path, tool, where, name, VALID[name]))
        assert arrived(file, name) == VALID[name]
    assert file.warnings == ()


@pytest.mark.parametrize(("tool", "where", "name", "row"), rows_with("refused"))
def test_a_refused_field_is_refused_with_the_note(tmp_path: Path, tool: str, where: Where, name: str, row: Row) -> None:
    path = write_with(tmp_path, tool, where, name, "something")
    with pytest.raises(InputFileError) as caught:
        read(tool, path)
    assert f"{name} is 'something': {row.note}; remove the field" in str(caught.value)


@pytest.mark.parametrize(("tool", "where", "name", "row"), rows_with("ignored"))
def test_an_ignored_field_warns_with_the_note(tmp_path: Path, tool: str, where: Where, name: str, row: Row) -> None:
    (warning,) = read(tool, write_with(tmp_path, tool, where, name, "something")).warnings
    assert f"{name} is 'something' and is ignored: " in warning
    assert warning.endswith(row.note)


HARMLESS: list[tuple[str, Where, str, Any]] = [
    (TTS, "file field", "ref_audio", ""),
    (TTS, "request field", "ref_text", ""),
    (TTS, "file field", "apply_chat_template", True),
    (TTS, "file field", "add_generation_prompt", True),
    (TTS, "file field", "enable_thinking", False),
    (TTS, "file field", "available_lora_weights", {}),
    (OMNI, "file field", "spec_proposal_sampling", "auto"),
    (OMNI, "file field", "num_logprobs", 0),
    (OMNI, "file field", "context_cache_lookup_policy", "bypass"),
    (OMNI, "request field", "lora_name", ""),
    (OMNI, "request field", "save_system_prompt_kv_cache", False),
    (OMNI, "request field", "disable_spec_decode", True),
    (OMNI, "streaming field", "enable", False),
    (OMNI, "streaming field", "codec_chunk_frames", 10),
    (OMNI, "file field", "language", ""),
    (OMNI, "file field", "ref_audio", ""),
]


@pytest.mark.parametrize(("tool", "where", "name", "value"), HARMLESS)
def test_the_reference_default_of_a_refused_or_ignored_field_passes_in_silence(
    tmp_path: Path, tool: str, where: Where, name: str, value: Any
) -> None:
    assert read(tool, write_with(tmp_path, tool, where, name, value)).warnings == ()


def test_a_name_of_the_other_tool_is_refused_with_the_way_to_it(tmp_path: Path) -> None:
    path = write_with(tmp_path, TTS, "file field", "temperature", 0.5)
    with pytest.raises(InputFileError, match=r"Qwen3-Omni, which runs with --engineDir; for speech use talker_temper"):
        read(TTS, path)
    path = write_with(tmp_path, OMNI, "request field", "instruct", "Calm.")
    with pytest.raises(InputFileError, match=r"instruct is 'Calm.': it belongs to Qwen3-TTS, which runs without --eng"):
        read(OMNI, path)


def test_a_command_has_the_flags_of_both_tools_and_the_one_that_uses_a_flag_decides() -> None:
    flags = rows_for(INFER, "flag")
    assert {"--cloneEncoderDir", "--enableAudioOutput", "--strict", "--eagle"} <= flags.keys()
    shared = rows_for(TTS, "flag").keys() & rows_for(OMNI, "flag").keys()
    used = {name for tool in (TTS, OMNI) for name, row in rows_for(tool, "flag").items() if row.status == "used"}
    assert {name for name in shared if flags[name].status == "used"} == shared & used


def test_a_flag_of_one_tool_is_refused_when_the_command_stands_in_for_the_other() -> None:
    assert rows_for(OMNI, "flag")["--tokenizerDir"].status == "refused"
    assert rows_for(TTS, "flag")["--warmup"].status == "refused"
    for tool in (TTS, OMNI):
        assert rows_for(tool, "flag")["--failOnLength"].status == "used"


def command_of(name: str) -> click.Command:
    main = importlib.import_module(MAINS[name]).main
    assert isinstance(main, click.Command)
    return main


def options_of(command: click.Command) -> set[str]:
    """Every spelling of every option, --help included."""
    parameters = command.get_params(click.Context(command, **command.context_settings))
    return {
        spelling
        for parameter in parameters
        if isinstance(parameter, click.Option)
        for spelling in (*parameter.opts, *parameter.secondary_opts)
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_stands_in_the_table(command: str) -> None:
    assert options_of(command_of(command)) <= rows_for(command, "flag").keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_used_or_ignored_flag_is_an_option_of_its_command(command: str) -> None:
    expected = {name for name, row in rows_for(command, "flag").items() if row.status != "refused"}
    assert expected <= options_of(command_of(command))


REFUSED_FLAGS = [
    pytest.param(command, name, row, id=f"{command}{name}")
    for command in COMMANDS
    for name, row in rows_for(command, "flag").items()
    if row.status == "refused"
]


@pytest.mark.parametrize(("command", "name", "row"), REFUSED_FLAGS)
def test_a_refused_flag_is_a_usage_error_with_the_note(command: str, name: str, row: Row) -> None:
    arguments = [name, "7"] if row.metavar else [name]
    result = CliRunner().invoke(command_of(command), arguments)
    assert result.exit_code == 2
    assert row.note in result.output
    assert name in result.output
