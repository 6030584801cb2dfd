"""The command sequences that the reference documents for both families, and what each line becomes here.

Only the reference's lines are written down. Ours follow from them: the tool's name is replaced, flags that are not used
here are left out, and paths of an export are those of ``cpspec-export``. So a flag that changes its status in the
table changes the sequences as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cpspec_trt.files.compatibility import rows_for
from cpspec_trt.files.compatibility_row import AUDIO_BUILD, BUILD, INFER, LLM_BUILD, OMNI, TTS

REFERENCE_EXPORT, EXPORT = "tensorrt-edgellm-export", "cpspec-export"
# Tool of the reference -> command that stands in for it, and whose flags decide (None: arguments only).
_STANDS_IN = {
    REFERENCE_EXPORT: (EXPORT, None),
    LLM_BUILD: (BUILD, BUILD),
    AUDIO_BUILD: (BUILD, BUILD),
    TTS: (INFER, TTS),
    OMNI: (INFER, OMNI),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a documented sequence.

    Attributes:
        what: what the line makes or does.
        tool: the reference's program.
        arguments: as documented, each a flag alone, a flag with its value, or a bare argument.
        moved: values that are others here.
    """

    what: str
    tool: str
    arguments: tuple[str, ...]
    moved: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The command of this package that stands in."""
        return _STANDS_IN[self.tool][0]

    def reference(self) -> str:
        """The line as the reference documents it."""
        return " ".join((self.tool, *self.arguments))

    def here(self) -> str:
        """The line that does the same here."""
        return " ".join((self.command, *(self._moved(argument) for argument in self.arguments if self._used(argument))))

    def left_out(self) -> dict[str, str]:
        """Flag -> why it does not stand in our line."""
        return {argument.split()[0]: self._note(argument) for argument in self.arguments if not self._used(argument)}

    def _used(self, argument: str) -> bool:
        reader = _STANDS_IN[self.tool][1]
        return reader is None or rows_for(reader, "flag")[argument.split()[0]].status == "used"

    def _note(self, argument: str) -> str:
        return rows_for(_STANDS_IN[self.tool][1] or EXPORT, "flag")[argument.split()[0]].note

    def _moved(self, argument: str) -> str:
        flag, _, value = argument.rpartition(" ")
        return f"{flag} {self.moved.get(value, value)}".strip()


_TTS_SIZES = ("--maxInputLen 4096", "--maxKVCacheCapacity 4096", "--maxBatchSize 1")
_OMNI_SIZES = ("--maxBatchSize 1", "--maxInputLen 1024", "--maxKVCacheCapacity 2048")

TTS_SEQUENCE = (
    Step("export", REFERENCE_EXPORT, ("$CKPT", "$ONNX")),
    Step("Talker", LLM_BUILD, ("--onnxDir $ONNX/llm", "--engineDir $ENG/talker", *_TTS_SIZES)),
    Step(
        "CodePredictor",
        LLM_BUILD,
        ("--onnxDir $ONNX/code_predictor", "--engineDir $ENG/code_predictor", *_TTS_SIZES),
    ),
    Step("code2wav", AUDIO_BUILD, ("--onnxDir $ONNX/code2wav", "--engineDir $ENG")),
    Step(
        "speech",
        TTS,
        (
            "--talkerEngineDir $ENG/talker",
            "--code2wavEngineDir $ENG/code2wav",
            "--tokenizerDir $ENG/talker",
            "--inputFile input.json",
            "--outputFile output.json",
            "--outputAudioDir audio",
            "--cpSpecVerifySize 3",
        ),
    ),
)

OMNI_SEQUENCE = (
    Step("export", REFERENCE_EXPORT, ("$CKPT", "$ONNX")),
    Step(
        "Thinker",
        LLM_BUILD,
        ("--onnxDir $ONNX/llm/thinker", "--engineDir $ENG/thinker", *_OMNI_SIZES),
        {"$ONNX/llm/thinker": "$ONNX/thinker"},
    ),
    Step(
        "Talker",
        LLM_BUILD,
        ("--onnxDir $ONNX/llm/talker", "--engineDir $ENG/talker", *_OMNI_SIZES),
        {"$ONNX/llm/talker": "$ONNX/talker"},
    ),
    Step(
        "CodePredictor",
        LLM_BUILD,
        (
            "--onnxDir $ONNX/llm/code_predictor",
            "--engineDir $ENG/code_predictor",
            "--maxBatchSize 1",
            "--maxInputLen 256",
            "--maxKVCacheCapacity 256",
        ),
        {"$ONNX/llm/code_predictor": "$ONNX/code_predictor"},
    ),
    Step(
        "code2wav",
        AUDIO_BUILD,
        ("--onnxDir $ONNX/audio/code2wav", "--engineDir $ENG/multimodal/code2wav", "--maxCodeLen 1000"),
        {"$ONNX/audio/code2wav": "$ONNX/code2wav"},
    ),
    Step(
        "text and speech",
        OMNI,
        (
            "--engineDir $ENG/thinker",
            "--multimodalEngineDir $ENG/multimodal",
            "--enableAudioOutput",
            "--enableThinkerTalkerStreaming",
            "--talkerEngineDir $ENG/talker",
            "--code2wavEngineDir $ENG/multimodal/code2wav",
            "--inputFile input.json",
            "--outputFile output.json",
            "--outputAudioDir audio",
            "--cpSpecVerifySize 3",
        ),
    ),
)

SEQUENCES = {"Qwen3-TTS": TTS_SEQUENCE, "Qwen3-Omni": OMNI_SEQUENCE}

# Where files lie: below $ENG in the reference, and here.
LAYOUT = (
    ("`talker/`", "`llm.engine`, `config.json`, `embedding.safetensors`, `text_projection.safetensors`", "the same"),
    ("`talker/` of Qwen3-TTS", "also `text_embedding.safetensors` and the tokenizer's files", "the same"),
    (
        "`talker/` of Qwen3-Omni",
        "also `hidden_projection.safetensors`, linked by hand",
        "the same, put there by the build",
    ),
    (
        "`thinker/`",
        "`llm.engine`, `config.json`, `embedding.safetensors`, the tokenizer's files, chat template",
        "the same",
    ),
    (
        "`code_predictor/`, the Talker's sibling",
        "`llm.engine`, `config.json`, `codec_embeddings.safetensors`, `lm_heads.safetensors`, "
        "`small_to_mtp_projection.safetensors` where the widths differ",
        "the same",
    ),
    (
        "`code2wav/`, beside the Talker or below `multimodal/`",
        "`code2wav.engine`, `config.json`",
        "the same; `--engineDir X/code2wav` is that directory itself, not one inside it",
    ),
    (
        "every directory",
        "–",
        "also `engine_manifest.json`; `llm.onnx` with `.data` in place of an engine on ONNX Runtime",
    ),
)

_PREFACE = """
## The same commands, side by side

The sequences that the reference documents, names substituted: the upper line is the reference's, the lower one does the
same here. `$CKPT` is a checkpoint, `$ONNX` and `$ENG` are directories of your own. A test runs the lower lines.
`cpspec-build --checkpoint $CKPT --engineDir $ENG` does all lines but the last at once.
"""

_AFTER = """
An export of the reference cannot be built here, and an engine of the reference cannot be run: its graphs call its own
plugins, its engines have no manifest. Both are recognised, and the message says what to run instead.
"""


def render_sequences() -> str:
    """The part of ``docs/compatibility.md`` that shows the sequences and the layout."""
    parts = [_PREFACE]
    for family, steps in SEQUENCES.items():
        parts.append(f"\n### {family}\n\n```\n")
        parts.append("\n".join(_pair(step) for step in steps))
        parts.append("```\n")
        left_out = {flag: note for step in steps for flag, note in step.left_out().items()}
        if left_out:
            parts.append(
                "\nLeft out here: " + "; ".join(f"`{flag}` ({note})" for flag, note in left_out.items()) + ".\n"
            )
    parts.append("\n### Where files lie\n\n| below `$ENG` | reference | here |\n|---|---|---|\n")
    parts.extend(f"| {where} | {reference} | {here} |\n" for where, reference, here in LAYOUT)
    return "".join((*parts, _AFTER))


def _pair(step: Step) -> str:
    return f"# {step.what}\n{step.reference()}\n{step.here()}\n"
