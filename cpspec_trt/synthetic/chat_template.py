"""A ChatML template with the features of the published Qwen3-Omni one that text conversations meet.

Content is a string or a list of items; image, video and audio items become their placeholders; the
reasoning of earlier answers is dropped; ``enable_thinking=False`` closes an empty reasoning block.
"""

from __future__ import annotations

from pathlib import Path

from cpspec_trt.files.atomic import write_text_atomic
from cpspec_trt.files.json_io import write_json_atomic
from cpspec_trt.synthetic.omni_spec import Style

_TEMPLATE = r"""
{%- macro joined(content) -%}
    {%- if content is string -%}
        {{- content -}}
    {%- else -%}
        {%- for item in content -%}
            {%- if item.type == 'image' -%}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
            {%- elif item.type == 'video' -%}
                {{- '<|vision_start|><|video_pad|><|vision_end|>' -}}
            {%- elif item.type == 'audio' -%}
                {{- '<|audio_start|><|audio_pad|><|audio_end|>' -}}
            {%- else -%}
                {{- item.text -}}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- set last = namespace(question=-1) -%}
{%- for message in messages -%}
    {%- if message.role == 'user' -%}
        {%- set last.question = loop.index0 -%}
    {%- endif -%}
{%- endfor -%}
{%- for message in messages -%}
    {%- set text = joined(message.content) -%}
    {%- if message.role == 'assistant' and loop.index0 < last.question -%}
        {%- set text = text.split('</think>')[-1].lstrip('\n') -%}
    {%- endif -%}
    {{- '<|im_start|>' + message.role + '\n' + text + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\n' -}}
    {%- if enable_thinking is defined and enable_thinking is false -%}
        {{- '<think>\n\n</think>\n\n' -}}
    {%- endif -%}
{%- endif -%}
"""


def write_chat_template(directory: Path, style: Style) -> None:
    """Write ``chat_template.json`` as published, or ``chat_template.jinja`` as transformers 5 saves it."""
    template = _TEMPLATE.strip("\n")
    if style == "published":
        write_json_atomic(directory / "chat_template.json", {"chat_template": template})
    else:
        write_text_atomic(directory / "chat_template.jinja", template)
