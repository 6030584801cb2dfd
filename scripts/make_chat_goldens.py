"""Write tests/text/data/chat_goldens.json: conversations as transformers renders them.

Run it in the Qwen3-Omni reference environment (transformers 5.24), from the repository root:

    python scripts/make_chat_goldens.py

The tokenizer is the published one of tests/text/data, given one template of tests/text/data/chat at a time.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2
from transformers import Qwen2Tokenizer

DATA = Path(__file__).resolve().parent.parent / "tests" / "text" / "data"

CHECKED_TO_IDS = "omni_style.jinja"

HELLO = [{"role": "user", "content": "Hello there."}]
SYSTEM = {"role": "system", "content": "Answer in one sentence."}
LONG = [
    SYSTEM,
    {"role": "user", "content": "How far is the moon?"},
    {"role": "assistant", "content": "<think>\nFar?\n</think>\n\n384,400 km."},
    {"role": "user", "content": "And the sun?"},
]
ITEMS = [
    {"role": "system", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "kind.\n"}]},
    {"role": "user", "content": [{"type": "text", "text": "Grüß Gott, "}, {"type": "text", "text": "世界 <&> \"'"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "Ja."}]},
    {"role": "system", "content": "A second one."},
    {"role": "user", "content": "  spaces  \n\n"},
]
PREFILLED = [*LONG, {"role": "assistant", "content": "The sun is"}]
REASONED = [*LONG, {"role": "assistant", "content": "<think>\nHot.\n</think>\n\nIt is far."}]
SYSTEM_ONLY = [SYSTEM]
CONVERSATIONS = [HELLO, [SYSTEM, *HELLO], LONG, ITEMS, PREFILLED, REASONED, SYSTEM_ONLY]


def main() -> None:
    tokenizer = Qwen2Tokenizer.from_pretrained(DATA / "published")
    cases: list[dict[str, Any]] = []
    for path in sorted((DATA / "chat").glob("*.jinja")):
        tokenizer.chat_template = path.read_text(encoding="utf-8")
        for messages in CONVERSATIONS:
            for prompt, thinking in ((True, None), (True, False), (False, True)):
                case = {"template": path.name, "messages": messages, "prompt": prompt, "thinking": thinking}
                given = {} if thinking is None else {"enable_thinking": thinking}
                try:
                    text = tokenizer.apply_chat_template(
                        messages, add_generation_prompt=prompt, tokenize=False, **given
                    )
                    ids = {"ids": tokenizer(text).input_ids} if path.name == CHECKED_TO_IDS else {}
                    cases.append({**case, "text": text, **ids})
                except jinja2.TemplateError as fault:
                    cases.append({**case, "refusal": str(fault)})
    rows = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    (DATA / "chat_goldens.json").write_text(f'{{"cases": [\n{rows}\n]}}\n', encoding="utf-8")
    print(f"{len(cases)} cases, {sum('refusal' in case for case in cases)} refused")


if __name__ == "__main__":
    main()
