"""What TensorRT says becomes part of our errors, and of a file."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
import tensorrt_rtx as trt

from cpspec_trt.builder.build_log import BuildLog, check_log
from cpspec_trt.builder.flavour import FULL, RTX, Flavour
from cpspec_trt.errors import EngineError

ERROR, INFO, WARNING = trt.ILogger.ERROR, trt.ILogger.INFO, trt.ILogger.WARNING
NO_DRIVER = (
    "[checkMacros.cpp::catchCudaError::250] Error Code 1: Cuda Runtime (… (cudaError 35: CUDA driver version …))"
)


def failure(flavour: Flavour, *lines: tuple[Any, str]) -> str:
    log = BuildLog(trt, flavour, "talker")
    for severity, line in lines:
        log.logger.log(severity, line)
    return str(log.failure("cannot build the engine"))


def test_errors_are_repeated_and_other_lines_are_not() -> None:
    said = failure(RTX, (INFO, "fine"), (ERROR, "Myelin: no\nkernel"), (WARNING, "slow"))
    assert said == "talker: tensorrt-rtx cannot build the engine: Myelin: no kernel"


def test_a_failure_without_a_reason_says_so() -> None:
    assert failure(RTX, (INFO, "fine")).endswith("cannot build the engine: TensorRT gave no reason")


def test_each_error_stands_once_and_only_the_first_are_shown() -> None:
    lines = [(ERROR, f"error {number}") for number in (1, 1, 2, 3, 4, 5, 6, 7)]
    said = failure(RTX, *lines)
    assert "error 1; error 2; error 3; error 4; error 5 (and 2 more; see all with --buildLog FILE)" in said


def test_a_missing_driver_is_no_reason_where_none_is_needed() -> None:
    assert "cudaError" not in failure(RTX, (ERROR, "the reason"), (ERROR, NO_DRIVER))
    assert "cudaError 35" in failure(FULL, (ERROR, "the reason"), (ERROR, NO_DRIVER))


def test_the_file_gets_every_line_with_component_and_severity() -> None:
    stream = io.StringIO()
    with BuildLog(trt, RTX, "thinker", stream) as log:
        log.logger.log(trt.ILogger.VERBOSE, "tactic 7")
        log.logger.log(ERROR, "bad")
    assert stream.getvalue() == "thinker VERBOSE tactic 7\nthinker ERROR bad\n"


def test_the_library_itself_takes_the_logger() -> None:
    stream = io.StringIO()
    with BuildLog(trt, RTX, "talker", stream) as log:
        builder = trt.Builder(log.logger)
        config = builder.create_builder_config()
        config.builder_optimization_level = -1
    assert "talker ERROR IBuilderConfig::setBuilderOptimizationLevel" in stream.getvalue()
    assert "Parameter check failed" in str(log.failure("refuses"))


def test_a_log_that_can_be_opened_is_left_as_it_was(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("line\n")
    for path in (old, new, None):
        check_log(path)
    assert old.read_text() == "line\n"
    assert list(tmp_path.iterdir()) == [old]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    check_log(tmp_path / "pipe")  # opening it would block: nobody reads


@pytest.mark.parametrize(("place", "reason"), [("", "Is a directory"), ("none/log", "No such file or directory")])
def test_a_log_that_cannot_be_written_is_named(tmp_path: Path, place: str, reason: str) -> None:
    with pytest.raises(EngineError, match=rf"--buildLog {tmp_path / place}: cannot be written: {reason}; choose"):
        check_log(tmp_path / place)
