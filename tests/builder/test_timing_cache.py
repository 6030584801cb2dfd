"""The file of kernel times: read before a build, written after it. TensorRT for RTX has none, so a stand-in plays full
TensorRT's part: a cache is a text of times, and one of another machine is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import tensorrt_rtx as trt

from cpspec_trt.builder.build_log import BuildLog
from cpspec_trt.builder.flavour import FULL
from cpspec_trt.builder.timing_cache import check_place, keep_timing_cache, use_timing_cache
from cpspec_trt.errors import EngineError


class Config:
    """Of ``IBuilderConfig``, what a timing cache needs."""

    def __init__(self, log: BuildLog) -> None:
        self._log = log
        self.times = b""

    def create_timing_cache(self, content: bytes) -> SimpleNamespace | None:
        return None if content == b"damaged" else SimpleNamespace(content=content)

    def set_timing_cache(self, cache: SimpleNamespace, ignore_mismatch: bool) -> bool:
        if cache.content.startswith(b"other machine") and not ignore_mismatch:
            self._log.logger.log(trt.ILogger.ERROR, "timing cache was made on another device")
            return False
        self.times = cache.content
        return True

    def get_timing_cache(self) -> SimpleNamespace:
        return SimpleNamespace(serialize=lambda: self.times + b"+")


@pytest.fixture
def log() -> BuildLog:
    return BuildLog(trt, FULL, "talker")


def test_times_grow_from_build_to_build(tmp_path: Path, log: BuildLog) -> None:
    path = tmp_path / "times"
    for expected in (b"+", b"++"):
        config = Config(log)
        use_timing_cache(config, path, log)
        keep_timing_cache(config, path)
        assert path.read_bytes() == expected
    assert [found.name for found in tmp_path.iterdir()] == ["times"]


@pytest.mark.parametrize(("content", "said"), [(b"other machine", "another device"), (b"damaged", "gave no reason")])
def test_a_cache_that_tensorrt_refuses_is_named(tmp_path: Path, log: BuildLog, content: bytes, said: str) -> None:
    path = tmp_path / "times"
    path.write_bytes(content)
    with pytest.raises(EngineError, match=rf"talker: tensorrt cannot use the timing cache .*times .*{said}"):
        use_timing_cache(Config(log), path, log)
    assert path.read_bytes() == content


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path, log: BuildLog) -> None:
    with pytest.raises(EngineError, match=rf"timing cache {tmp_path}: cannot be read: Is a directory"):
        use_timing_cache(Config(log), tmp_path, log)
    (tmp_path / "file").write_text("x")
    with pytest.raises(EngineError, match=r"file/times: cannot be written: Not a directory"):
        keep_timing_cache(Config(log), tmp_path / "file" / "times")
    with pytest.raises(EngineError, match=r"file/times: cannot be written: Not a directory"):
        check_place(tmp_path / "file" / "times")


def test_looking_at_a_place_changes_no_file(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"times")
    for name in ("old", "new"):
        check_place(tmp_path / name)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("old", b"times")]
