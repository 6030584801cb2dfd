"""Each fp32 island holds where fp16 (or bf16) fails, and fails without the island."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from cpspec_trt.errors import EngineError
from cpspec_trt.graphs.code_predictor import author_code_predictor
from cpspec_trt.graphs.lowering.islands import ISLANDS as RULES
from cpspec_trt.graphs.lowering.lowered import ISLANDS, islands_of
from cpspec_trt.graphs.lowering.precision import Precision, set_precision
from cpspec_trt.graphs.lowering.weights import convert_in_memory
from tests.graphs.decoder_oracle import decoder
from tests.graphs.decoder_runs import MASKED, saved
from tests.graphs.decoding import TTS_GOLDEN, Decoder, load_decoder
from tests.graphs.lowering.conftest import Open
from tests.graphs.lowering.exports import Arrays, Exported, feeds_of, run
from tests.graphs.lowering.rounding import evaluate, evaluate_in_fp16, written_out
from tests.graphs.lowering.test_precision import TOLERANCE, worst
from tests.graphs.test_code2wav import DEMO
from tests.graphs.test_code_predictor import GROUPS, PREFIX, TINY, Model

FRAMES = 40
Change = Callable[[str, np.ndarray], np.ndarray]  # (name of a weight, its values) -> other values


def with_weights(model: onnx.ModelProto, change: Change) -> onnx.ModelProto:
    """A copy with other weights."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for tensor in changed.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array(change(tensor.name, array).astype(np.float32), tensor.name))
    return changed


def typed(
    model: onnx.ModelProto, component: str, precision: Precision, *, without: str | None = None
) -> onnx.ModelProto:
    """The graph with all islands of its component, or all but one."""
    assert without is None or without in islands_of(component, precision)
    found = set_precision(model, precision, set(islands_of(component, precision)) - {without})
    return convert_in_memory(found.model, found.weights, {}, model)[0]


def error(found: Arrays, expected: Arrays) -> float:
    """The largest relative error over all outputs; infinite where a value is."""
    return max(float(np.nan_to_num(value, nan=np.inf)) for value in worst(found, expected).values())


def test_every_island_of_a_component_has_a_rule_that_finds_nodes_there(exported: Open) -> None:
    graphs = {"code_predictor": "tts code_predictor", "talker": "tts talker", "thinker": "omni thinker"}
    for component, names in ISLANDS.items():
        graph = gs.import_onnx(exported(graphs.get(component, "omni code2wav")).model)
        for name in names:
            assert list(RULES[name](graph)), f"{component}: {name}"


def write(model: Model) -> Model:
    """Put the weights, as they are now, on disk."""
    model.tensors = saved(model.weights, model.directory)
    author_code_predictor(model.config, model.tensors).save(model.directory / "model.onnx")
    return model


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A CodePredictor whose MLPs read rows of magnitude 72: gate and up reach 300, their products 90,000."""
    model = Model(TINY, TINY.hidden_size, tmp_path_factory.mktemp("large"))
    for name, array in model.weights.items():
        if name.endswith("post_attention_layernorm.weight"):
            array[...] = 72
        elif name.endswith(("gate_proj.weight", "up_proj.weight")):
            array *= 1.5
    return write(model)


@pytest.fixture(scope="module")
def coherent(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Gate and up are 72 in every channel: the product, 5184, fits; the down projection adds up to 414,720."""
    model = Model(TINY, TINY.hidden_size, tmp_path_factory.mktemp("coherent"))
    model.embeds[...] = 1
    for name, array in model.weights.items():
        if name.endswith(("gate_proj.weight", "up_proj.weight")):
            array[...] = 72 / TINY.hidden_size
        elif name.endswith(("down_proj.weight", "layernorm.weight")):
            array[...] = 1
        elif name.endswith("o_proj.weight"):
            array[...] = 0
    return write(model)


def frame(model: Model, precision: Precision, without: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Hidden rows of a whole frame under true rounding, and those of the float64 oracle."""
    half = TINY.head_dim // 2
    angles = np.arange(GROUPS)[:, None] * TINY.rope_theta ** (-np.arange(half) / half)
    cache = np.zeros((1, TINY.num_key_value_heads, GROUPS, TINY.head_dim), np.float32)
    feeds: Arrays = {
        "inputs_embeds": model.embeds[:1],
        "attention_mask": np.where(np.tri(GROUPS), 0, MASKED).astype(np.float32)[None],
        "rope_cos": np.cos(angles).astype(np.float32)[None],
        "rope_sin": np.sin(angles).astype(np.float32)[None],
        "write_indices": np.zeros(1, np.int64),
    }
    feeds |= {f"past_{kind}_{i}": cache for i in range(TINY.num_hidden_layers) for kind in ("key", "value")}
    graph = typed(onnx.load(model.directory / "model.onnx"), "code_predictor", precision, without=without)
    expected = decoder(model.weights, f"{PREFIX}.model", TINY, model.embeds[0].astype(np.float64))
    return evaluate(graph, feeds)["hidden_states"][0], expected


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("name", ["large", "coherent"])
def test_activations_of_72_are_right_with_the_islands(
    request: pytest.FixtureRequest, name: str, precision: Precision
) -> None:
    found, expected = frame(request.getfixturevalue(name), precision)
    assert np.abs(found - expected).max() <= TOLERANCE[precision] * np.abs(expected).max()


@pytest.mark.parametrize("island", ["silu product", "down projection"])
def test_activations_of_72_overflow_fp16_without_either_island(large: Model, island: str) -> None:
    found, expected = frame(large, "fp16", without=island)
    assert np.isfinite(expected).all()
    assert not np.isfinite(found).all()


def test_a_down_projection_may_overflow_although_every_product_fits(coherent: Model) -> None:
    found, _ = frame(coherent, "fp16", without="down projection")
    assert not np.isfinite(found).all()


def large_scores(name: str, array: np.ndarray) -> np.ndarray:
    """Query and key of 90 in every channel: their product of 16 channels reaches 129,600 before it is scaled."""
    return array * 90 if name.endswith(("q_norm.weight", "k_norm.weight")) else array


def growing_stream(name: str, array: np.ndarray) -> np.ndarray:
    """Every layer adds up to 40,000 to the stream, which reaches beyond 65,504 after two."""
    return np.abs(array) * 6000 if name.endswith("mlp.down_proj.weight") else array


def great_snake(name: str, array: np.ndarray) -> np.ndarray:
    """x + sin(x / 1000)² · 100,000. The magnitude is 1 / (e^beta + 1e-9) and may reach a thousand millions."""
    if not name.endswith((".alpha", ".beta")):
        return array
    return np.full_like(array, 1e-3 if name.endswith(".alpha") else 1e5)


def large_queries(name: str, array: np.ndarray) -> np.ndarray:
    """Queries of several hundred, whose squares reach beyond 65,504 in the norm."""
    return array * 400 if name.endswith("q_proj.weight") else array


@pytest.mark.parametrize(
    ("name", "island", "change", "inside"),
    [
        ("tts code_predictor", "scores", large_scores, False),
        ("tts talker", "scores", large_scores, False),
        ("tts talker", "residual", growing_stream, False),
        ("tts talker", "norms", large_queries, True),
    ],
)
def test_fp16_fails_without_the_island_and_holds_with_it(
    exported: Open, name: str, island: str, change: Change, inside: bool
) -> None:
    """``inside``: the failure is inside an operator, where only the evaluator in fp16 sees it."""
    found = exported(name)
    model = with_weights(found.model, change)
    feeds, evaluator = feeds_of(found), evaluate_in_fp16 if inside else evaluate
    expected = run(model, feeds)
    kept = error(evaluator(typed(model, found.component, "fp16"), feeds), expected)
    lost = error(evaluator(typed(model, found.component, "fp16", without=island), feeds), expected)
    assert kept <= 3 * TOLERANCE["fp16"]
    assert lost > 10 * TOLERANCE["fp16"]


class Voice:
    """The decoder of the demo voice over true codes, and how far from fp32 its speech is, in decibels."""

    def __init__(self, graph: Path) -> None:
        decoder = load_decoder(DEMO, graph)
        with np.load(TTS_GOLDEN) as golden:
            codes = golden["demo_codes"].reshape(-1, *golden["demo_codes"].shape[-2:])
        self.codes = codes[:1, :FRAMES].swapaxes(1, 2)
        self.config, self.model, self.speech = decoder.config, onnx.load(graph), decoder.decode(self.codes)

    def signal_to_noise(self, precision: Precision, without: str | None = None) -> float:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # which would drop the roundings
        options.intra_op_num_threads = 1
        rounded = written_out(typed(self.model, "code2wav", precision, without=without))
        for value in rounded.graph.input:
            _rename_input(rounded, value.name, value.name.removesuffix("/exact"))
        opened = ort.InferenceSession(rounded.SerializeToString(), options, providers=["CPUExecutionProvider"])
        noise = Decoder(self.config, opened).decode(self.codes) - self.speech
        return float(10 * np.log10((self.speech**2).sum() / (noise**2).sum()))


def _rename_input(model: onnx.ModelProto, old: str, new: str) -> None:
    """An input ``x/exact`` becomes ``x``, and what was ``x`` inside gets another name."""
    if old == new:
        return
    names = {old: new, new: f"{new}/rounded"}
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    next(value for value in model.graph.input if value.name == old).name = new


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> Voice:
    return Voice(tmp_path_factory.mktemp("voice") / "model.onnx")


@pytest.mark.parametrize(
    ("precision", "heard", "limits"),
    [
        ("fp16", 65, {"transformer": 50, "snake": 62}),
        ("bf16", 47, {"transformer": 40, "snake": 44}),
    ],
)
def test_speech_of_the_demo_voice_keeps_its_distance_from_the_noise_of_rounding(
    voice: Voice, precision: Precision, heard: float, limits: dict[str, float]
) -> None:
    assert voice.signal_to_noise(precision) > heard
    for island, limit in limits.items():
        assert voice.signal_to_noise(precision, without=island) < limit, island


def test_a_snake_may_have_magnitudes_beyond_fp16(exported: Open) -> None:
    found = exported("omni code2wav")
    model = with_weights(found.model, great_snake)
    feeds = feeds_of(found)
    assert error(evaluate(typed(model, "code2wav", "fp16"), feeds), run(model, feeds)) <= 3 * TOLERANCE["fp16"]
    with pytest.raises(
        EngineError, match=r"weight 'code2wav\.decoder\..*\.beta' holds 100000, beyond the range of fp16"
    ):
        typed(model, "code2wav", "fp16", without="snake")


@pytest.mark.parametrize(("name", "island"), [("tts talker", "logits"), ("tts code2wav", "waveform")])
def test_what_is_drawn_from_and_what_is_heard_is_finer_than_bf16(exported: Open, name: str, island: str) -> None:
    found = exported(name)

    def share_of_bf16(without: str | None) -> float:
        values = evaluate(typed(found.model, found.component, "bf16", without=without), feeds_of(found))[island]
        return float(np.mean((values.view(np.uint32) & 0xFFFF) == 0))

    assert share_of_bf16(None) < 0.1
    assert share_of_bf16(island) == 1


def test_islands_are_found_in_a_layer_with_experts(exported: Open) -> None:
    """The router's product and softmax are fp32: two probabilities that fp16 would tie choose as in fp32."""
    found: Exported = exported("omni thinker")
    graph = typed(found.model, found.component, "fp16").graph
    tops = [node for node in graph.node if node.op_type == "TopK"]
    softmax = {node.output[0]: node for node in graph.node if node.op_type == "Softmax"}
    routers = [softmax[node.input[0]] for node in tops if node.input[0] in softmax]
    assert len(routers) == found.number("num_hidden_layers")
    fp32 = {tensor.name for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT}
    for router in routers:
        product = next(node for node in graph.node if node.output[0] == router.input[0])
        assert product.op_type == "MatMul"
        assert product.input[1] in fp32
