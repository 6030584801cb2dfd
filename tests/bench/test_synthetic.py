"""Engines of published sizes from random weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpspec_trt.bench.synthetic import CONFIGURATIONS, _spec, synthetic_engines
from cpspec_trt.errors import UsageError
from cpspec_trt.files.engine_config import CodePredictorConfig, read_config_of
from cpspec_trt.synthetic.omni_spec import OmniSpec
from cpspec_trt.synthetic.spec import TtsSpec


@pytest.mark.parametrize("configuration", ["0.6B", "1.7B", "Omni"])
def test_a_code_predictor_measured_alone_has_the_published_size_and_the_rest_is_tiny(configuration: str) -> None:
    published, spec = CONFIGURATIONS[configuration], _spec(CONFIGURATIONS[configuration], "code_predictor")
    assert spec.code_predictor == published.code_predictor
    assert spec.num_code_groups == published.num_code_groups == 16
    assert spec.talker.hidden_size == published.talker.hidden_size  # what its first row costs
    assert spec.talker.num_hidden_layers == 2
    layer = published.code_predictor
    assert (layer.num_hidden_layers, layer.hidden_size, layer.intermediate_size) == (5, 1024, 3072)


@pytest.mark.parametrize("configuration", ["0.6B", "1.7B", "Omni"])
def test_code2wav_measured_alone_has_the_published_size(configuration: str) -> None:
    published, spec = CONFIGURATIONS[configuration], _spec(CONFIGURATIONS[configuration], "code2wav")
    if isinstance(spec, OmniSpec):
        assert isinstance(published, OmniSpec)
        assert spec.code2wav == published.code2wav
    else:
        assert isinstance(published, TtsSpec)
        assert spec.decoder == published.decoder
    assert spec.codebook_size == published.codebook_size == 2048
    assert spec.code_predictor.num_hidden_layers == 2


def test_whole_models_are_the_published_ones_that_never_end_by_themselves() -> None:
    spec = _spec(CONFIGURATIONS["1.7B"], "all")
    assert isinstance(spec, TtsSpec)
    assert (spec.talker.num_hidden_layers, spec.talker.hidden_size, spec.eos_gain) == (28, 2048, 0.0)


def test_omni_as_a_whole_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--stage code_predictor or code2wav"):
        synthetic_engines("Omni", "all", tmp_path / "engines", 8, 0)
    assert not (tmp_path / "engines").exists()


def test_engines_are_built_once_for_as_many_rows_as_asked_and_kept_for_the_same_wish(tmp_path: Path) -> None:
    directory = synthetic_engines("tiny", "code_predictor", tmp_path / "engines", 15, 3)
    assert sorted(path.name for path in directory.iterdir()) == ["code_predictor", "synthetic.json"]
    engine = directory / "code_predictor"
    assert read_config_of(engine, CodePredictorConfig).num_code_groups == 16
    stamp = (engine / "engine_manifest.json").stat().st_mtime_ns
    synthetic_engines("tiny", "code_predictor", directory, 15, 3)
    assert (engine / "engine_manifest.json").stat().st_mtime_ns == stamp
    with pytest.raises(UsageError, match="holds other synthetic engines"):
        synthetic_engines("tiny", "code_predictor", directory, 15, 4)


def test_a_directory_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        synthetic_engines("tiny", "code_predictor", tmp_path, 8, 0)
    assert (tmp_path / "mine.txt").read_text() == "mine"
