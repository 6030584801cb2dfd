"""The three ways to use ``cpspec-infer``: a request file, one text, the list of voices. Their flags do not mix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import click

Way = Literal["file", "text", "voices"]

# Destinations of flags, by what they are for.
_OF_TEXT = ("engines", "text", "out", "speaker", "language", "instruct")
_OF_EVERY_RUN = (
    *("window", "rule", "tree_width", "require_speculation", "fail_on_length"),
    *("threads", "max_generate_length", "dump_profile", "profile_file", "debug"),
)
_OF_VOICES = ("list_voices", "engines", "engine_dir", "talker", "debug")


def chosen_way(context: click.Context) -> Way:
    """Which way the flags of the command line ask for.

    Raises:
        click.UsageError: flags of two ways, or a way's flag is missing; names them.
    """
    given = dict(_given(context))
    if "list_voices" in given:
        _refuse_others(given, "--listVoices", _OF_VOICES)
        if "engines" in given:
            _refuse_others(given, "--engines", ("list_voices", "engines", "debug"))
        return "voices"
    first = next((flag for name, flag in given.items() if name in _OF_TEXT), None)
    if first is not None:
        _refuse_others(given, first, (*_OF_TEXT, *_OF_EVERY_RUN))
        needed = {
            "engines": "--engines is missing; give the directory that cpspec-build --checkpoint wrote",
            "text": f"--text is missing; {first} takes one text to say, or - for standard input",
            "out": "--out is missing; give the WAV file to write",
        }
        _require(given, needed)
        return "text"
    _require(
        given, {"input_file": "--inputFile is missing; give a request file, or one text with --engines and --text"}
    )
    return "file"


def _given(context: click.Context) -> Iterator[tuple[str, str]]:
    """Destination and spelling of every visible flag that stands on the command line, in the order of the help."""
    for parameter in context.command.params:
        name = parameter.name or ""
        if parameter.expose_value and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            yield name, parameter.opts[0]


def _refuse_others(given: dict[str, str], flag: str, allowed: tuple[str, ...]) -> None:
    for name, other in given.items():
        if name not in allowed:
            raise click.UsageError(f"{other} cannot be combined with {flag}; remove one of the two")


def _require(given: dict[str, str], needed: dict[str, str]) -> None:
    for name, message in needed.items():
        if name not in given:
            raise click.UsageError(message)
