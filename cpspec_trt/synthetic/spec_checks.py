"""What the specs of both families must fulfil for a checkpoint to be one."""

from __future__ import annotations

from cpspec_trt.errors import UsageError
from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.synthetic.codec_vocabulary import TAG_IDS

ADDED_TOKENS = 33  # of the published tokenizer; their ids follow those of bytes and merges
_FEWEST_TOKENS = 256 + 15  # the bytes, and the merges that make one token of each role


def check_stack(name: str, stack: DecoderDimensions) -> None:
    """Refuse dimensions that attention cannot have.

    Raises:
        UsageError: names the field.
    """
    for field in ("num_hidden_layers", "hidden_size", "intermediate_size", "head_dim", "num_key_value_heads"):
        if getattr(stack, field) < 1:
            raise UsageError(f"{name}.{field} is {getattr(stack, field)}; it must be at least 1")
    if stack.num_attention_heads < 1 or stack.num_attention_heads % stack.num_key_value_heads:
        raise UsageError(f"{name}: {stack.num_key_value_heads} KV heads do not divide the attention heads")
    if stack.head_dim % 2:
        raise UsageError(f"{name}.head_dim is {stack.head_dim}; rotary positions need an even number")


def check_codebook(codes: int, talker_vocabulary: int) -> None:
    """Refuse a CodePredictor that predicts other codes than the Talker has.

    Raises:
        UsageError: names the field.
    """
    expected = talker_vocabulary - TAG_IDS
    if codes != expected:
        raise UsageError(
            f"code_predictor.vocab_size is {codes}, but talker.vocab_size leaves {expected} codes in front of its "
            f"{TAG_IDS} tags; make the two equal"
        )


def check_mrope(section: tuple[int, int, int], name: str, head_dim: int) -> None:
    """Refuse rotary sections that do not fill half of a head.

    Raises:
        UsageError: names the field.
    """
    if 2 * sum(section) != head_dim:
        raise UsageError(f"mrope_section is {section}; it must add up to half of {name}.head_dim, {head_dim // 2}")


def check_text_vocabulary(base: int, rows: int) -> None:
    """Refuse a tokenizer without its roles, and an embedding without a row for every token.

    Raises:
        UsageError: names the field.
    """
    if base < _FEWEST_TOKENS:
        raise UsageError(f"text_base_vocab is {base}; bytes and roles take {_FEWEST_TOKENS}")
    if rows < base + ADDED_TOKENS:
        raise UsageError(
            f"the text table has {rows} rows; text_base_vocab {base} and the added tokens take {base + ADDED_TOKENS}"
        )


def check_code_groups(groups: int) -> None:
    """Refuse a CodePredictor with nothing to predict.

    Raises:
        UsageError: there are fewer than two code groups.
    """
    if groups < 2:
        raise UsageError(f"num_code_groups is {groups}; it must be at least 2 (c0 and one RVQ depth)")
