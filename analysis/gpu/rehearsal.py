"""The smallest questions, conversations and shapes that run every line, for a rehearsal without a GPU."""

from __future__ import annotations

import json
from pathlib import Path

BASE = "assets/checkpoints/ar-sft"
"""The base of the adapter that a rehearsal trains."""
_SHAPE = {
    "model_type": "qwen2",
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 128,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
}
_QUESTIONS: list[dict[str, object]] = [
    {"question_id": 81, "category": "writing", "turns": ["Write a line.", "Write another."]},
    {"question_id": 161, "category": "translation", "turns": ["Good morning."]},
]


def write_inputs(folder: Path) -> None:
    """Write the shape, the questions and the conversations that `Setup` names."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(_SHAPE) + "\n", encoding="utf-8")
    _write_lines(folder / "questions.jsonl", _QUESTIONS)
    chats: list[dict[str, object]] = [
        {
            "messages": [
                {"role": "user", "content": f"Add {n} and 2."},
                {"role": "assistant", "content": f"{n} + 2 " * 4},
            ]
        }
        for n in range(6)
    ]
    _write_lines(folder / "conversations.jsonl", chats)


def _write_lines(file: Path, lines: list[dict[str, object]]) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
