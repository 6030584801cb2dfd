"""What ``cpspec-infer`` finds out from its flags and the file system before an engine is opened."""

from __future__ import annotations

import os
from pathlib import Path

from cpspec_trt.cli.infer_options import InferOptions
from cpspec_trt.errors import UsageError
from cpspec_trt.files.atomic import check_writable, is_special
from cpspec_trt.speculation.drafting import Drafting


def check_flags(options: InferOptions) -> None:
    """Refuse flags that cannot work, whatever the files hold.

    Raises:
        UsageError: names the flag, its value and what to give.
    """
    wished_drafting(options)
    if options.require_speculation and options.window == 0:
        raise UsageError("--requireSpeculation needs a verify window; add --cpSpecVerifySize 2 to 8")
    if options.threads is not None and options.threads < 1:
        raise UsageError(f"--threads is {options.threads}; give a whole number of at least 1")
    _refuse_shared_places(options)


def wished_drafting(options: InferOptions) -> Drafting:
    """What the flags of speculation ask for.

    Raises:
        UsageError: names the flag.
    """
    given = {
        "--cpSpecVerifySize": (options.window,),
        "--cpSpecTreeWidth": (options.window, options.rule, options.tree_width),
    }
    for flag, values in given.items():
        try:
            drafting = Drafting.checked(*values)
        except UsageError as fault:
            raise UsageError(f"{flag}: {fault}") from None
    return drafting


def check_targets(options: InferOptions) -> None:
    """Create the directories of all results, and refuse a place that cannot be written.

    Raises:
        UsageError: names the flag and the path.
    """
    for flag, path in _targets(options).items():
        try:
            # A file of the directory shows whether it takes files.
            check_writable(path / "audio_req0.wav" if flag == "--outputAudioDir" else path)
        except OSError as fault:
            raise UsageError(f"{flag} {path}: cannot be written: {fault.strerror}; give another place") from None


def _targets(options: InferOptions) -> dict[str, Path]:
    given = {
        "--out": options.out,
        "--outputAudioDir": options.audio_dir,
        "--outputFile": options.output_file,
        "--profileOutputFile": options.profile_file,
    }
    return {flag: path for flag, path in given.items() if path is not None}


def _refuse_shared_places(options: InferOptions) -> None:
    """No result may replace the request file or another result, or stand where another needs a directory."""
    targets = _targets(options)
    taken = targets if options.input_file is None else {**targets, "--inputFile": options.input_file}
    for flag, path in targets.items():
        if flag == "--outputAudioDir" or is_special(path):
            continue
        for other, place in taken.items():
            if other != flag and _in_the_way(path, place):
                raise UsageError(f"{flag} {path}: {other} {place} needs the same place; give another file")


def _in_the_way(path: Path, place: Path) -> bool:
    real, wanted = Path(os.path.realpath(path)), Path(os.path.realpath(place))
    if real == wanted or real in wanted.parents:
        return True
    return os.path.exists(path) and os.path.exists(place) and os.path.samefile(path, place)
