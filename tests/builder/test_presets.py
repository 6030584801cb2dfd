"""Build presets: those we ship are valid, and mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpspec_trt.builder import flavour
from cpspec_trt.builder.engine_options import EngineOptions, EngineSettings, check_options
from cpspec_trt.builder.presets import read_preset
from cpspec_trt.builder.profiles import BuildLimits
from cpspec_trt.devices.cuda import DeviceFacts
from cpspec_trt.errors import UsageError

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


SPEAKING = ("talker", "code_predictor", "code2wav")
SHIPPED = {
    "qwen3-tts-12hz-0.6b": SPEAKING,
    "qwen3-tts-12hz-1.7b": SPEAKING,
    "demo-voice": SPEAKING,
    "qwen3-omni-30b-a3b": ("thinker", *SPEAKING),
}


@pytest.mark.parametrize(("name", "components"), SHIPPED.items())
def test_the_presets_we_ship_give_valid_limits(name: str, components: tuple[str, ...]) -> None:
    preset = read_preset(CONFIGS / f"{name}.yaml")
    for component in components:
        assert preset.limits(component)
        BuildLimits(**preset.limits(component))


def test_every_shipped_preset_is_tested() -> None:
    assert {path.stem for path in CONFIGS.glob("*.yaml")} == SHIPPED.keys()


def test_only_given_values_are_returned(tmp_path: Path) -> None:
    path = tmp_path / "preset.yaml"
    path.write_text("talker:\n  max_input_len: 77\nbackend: onnxruntime\n")
    preset = read_preset(path)
    assert preset.limits("talker") == {"max_input_len": 77}
    assert preset.limits("code2wav") == {}
    assert preset.backend == "onnxruntime"


def test_options_of_tensorrt_have_the_types_of_the_builder(tmp_path: Path) -> None:
    path = tmp_path / "preset.yaml"
    path.write_text(
        "tensorrt:\n  precision: fp16\n  compute_capabilities: ['8.6', '8.9']\n  timing_cache: times\n"
        "  build_log: log\n  workspace_mib: 512\n  optimization_level: 0\n  version_compatible: false\n"
    )
    options = EngineOptions(**read_preset(path).engine_options())
    assert (options.precision, options.compute_capabilities) == ("fp16", ("8.6", "8.9"))
    assert (options.timing_cache, options.build_log) == (Path("times"), Path("log"))
    assert (options.workspace_mib, options.optimization_level, options.version_compatible) == (512, 0, False)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_presets_we_ship_fit_both_flavours_of_tensorrt(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = DeviceFacts("a GPU", "8.9", 1 << 34, 1 << 33, "13.0")
    monkeypatch.setattr(flavour, "probe", lambda: gpu)
    monkeypatch.setattr(flavour.Flavour, "is_installed", lambda self: True)
    options = EngineOptions(**read_preset(CONFIGS / f"{name}.yaml").engine_options())
    for backend in ("tensorrt", "tensorrt-rtx"):
        settings = check_options(options, backend)
        assert isinstance(settings, EngineSettings)
        assert settings.workspace_bytes is None, "code2wav needs more than it is easy to guess"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("talker:\n  max_inputlen: 5\n", "unknown key 'talker.max_inputlen'; did you mean 'max_input_len'?"),
        ("talkr:\n  max_input_len: 5\n", "unknown key 'talkr'; did you mean 'talker'?"),
        ("zzz: 1\n", "unknown key 'zzz'; known: backend, tensorrt, thinker, talker, code_predictor, code2wav"),
        ("tensorrt:\n  precison: fp16\n", "unknown key 'tensorrt.precison'; did you mean 'precision'?"),
        (
            "tensorrt:\n  compute_capabilities: 8.9\n",
            "tensorrt.compute_capabilities is 8.9: input should be a valid list",
        ),
        (
            "tensorrt:\n  compute_capabilities: [8.9]\n",
            "tensorrt.compute_capabilities.0 is 8.9: input should be a valid",
        ),
        ("code_predictor:\n  max_kv_cache_capacity: 32\n", "unknown key 'code_predictor.max_kv_cache_capacity'"),
        ("talker:\n  max_input_len: 0\n", "talker.max_input_len is 0: input should be greater than or equal to 1"),
        ("talker:\n  max_input_len: many\n", "talker.max_input_len is 'many': input should be a valid integer"),
        ("talker:\n  max_input_len: true\n", "talker.max_input_len is True: input should be a valid integer"),
        ("talker: 7\n", "talker is 7: input should be a valid dictionary"),
        ("- talker\n", "must map component names to limits"),
        ("", "must map component names to limits"),
        ("talker: {max_input_len: 1\n", "not YAML: "),
        ("talker:\n  max_input_len: 1\n  max_input_len: 2\n", "not YAML: the key 'max_input_len' stands twice"),
        ("[" * 5000, "is nested too deeply"),
        ("talker: !!python/object/apply:os.getcwd []\n", "not YAML: could not determine a constructor"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "preset.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_preset(path)
    assert str(caught.value).startswith(f"--config {path}: {message}")
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent.yaml: cannot be read: No such file"):
        read_preset(tmp_path / "absent.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"binary.yaml: not YAML: "):
        read_preset(tmp_path / "binary.yaml")
