"""What the chat templates of model families do, each for a trait of its own, from memory in a few lines."""

_CHATML = "'<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n'"
_CHATML_OPEN = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
_SYSTEM_APART = (
    "{% if messages[0]['role'] == 'system' %}{% set sys = messages[0]['content'] %}{% set rest = messages[1:] %}"
    "{% else %}{% set sys = '' %}{% set rest = messages %}{% endif %}"
)
_ALTERNATE = (
    "{% for m in rest %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}{% endfor %}"
)
_INST = (
    "{% for m in rest %}{% if m['role'] == 'user' %}{{ '[INST] ' + %USER% + ' [/INST]' }}"
    "{% else %}{{ ' ' + m['content'] | trim + ' ' + eos_token }}{% endif %}{% endfor %}"
)
_SAID = "{% for m in messages %}{% set c = m['content'] %}"

TEMPLATES = {
    "qwen2": "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{% endif %}"
    "{{ " + _CHATML + " }}{% endfor %}" + _CHATML_OPEN,
    "qwen3": "{% for m in messages %}{% if m['role'] == 'assistant' %}{% set c = m['content'] %}"
    "{% if '</think>' in c %}{% set c = c.split('</think>')[-1].lstrip('\\n') %}{% endif %}"
    "{% if loop.last %}{% set c = '<think>\\n\\n</think>\\n\\n' + c.lstrip('\\n') %}{% endif %}"
    "{{ '<|im_start|>assistant\\n' + c + '<|im_end|>\\n' }}{% else %}{{ " + _CHATML + " }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}",
    "qwq": "{% for m in messages %}{% set c = m['content'].split('</think>')[-1].lstrip('\\n') "
    "if m['role'] == 'assistant' else m['content'] %}{{ '<|im_start|>' + m['role'] + '\\n' + c + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}",
    "smollm2": "{% for m in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a helpful AI assistant named SmolLM<|im_end|>\\n' }}{% endif %}"
    "{{ " + _CHATML + " }}{% endfor %}" + _CHATML_OPEN,
    "smollm3": "{% set today = strftime_now('%d %B %Y') %}{{ '<|im_start|>system\\nToday Date: ' + today + '\\n' }}"
    "{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'].replace('/no_think', '').rstrip() }}{% endif %}"
    "{{ '<|im_end|>\\n' }}{% for m in messages if m['role'] != 'system' %}{{ " + _CHATML + " }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "hermes": "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'tool' %}"
    "{{ '<|im_start|>tool\\n<tool_response>\\n' + m['content'] + '\\n</tool_response><|im_end|>\\n' }}"
    "{% else %}{{ " + _CHATML + " }}{% endif %}{% endfor %}" + _CHATML_OPEN,
    "llama2": _SYSTEM_APART + _ALTERNATE + "{% for m in rest %}{% if loop.first and sys %}"
    "{% set c = '<<SYS>>\\n' + sys + '\\n<</SYS>>\\n\\n' + m['content'] %}"
    "{% else %}{% set c = m['content'] %}{% endif %}{% if m['role'] == 'user' %}"
    "{{ bos_token + '[INST] ' + c | trim + ' [/INST]' }}"
    "{% else %}{{ ' ' + c | trim + ' ' + eos_token }}{% endif %}{% endfor %}",
    "llama3": "{% for m in messages %}{% set c = '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' "
    "+ m['content'] | trim + '<|eot_id|>' %}{% if loop.first %}{{ bos_token }}{% endif %}{{ c }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
    "llama3.1": "{{ bos_token }}" + _SYSTEM_APART + ""
    "{{ '<|start_header_id|>system<|end_header_id|>\\n\\n' }}"
    "{{ 'Cutting Knowledge Date: December 2023\\nToday Date: ' + strftime_now('%d %b %Y') + '\\n\\n' }}"
    "{{ sys | trim + '<|eot_id|>' }}{% for m in rest %}"
    "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + '<|eot_id|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
    "mistral-v1": "{{ bos_token }}{% set rest = messages %}" + _ALTERNATE + _INST.replace("%USER%", "m['content']"),
    "mistral-v3": "{{ bos_token }}" + _SYSTEM_APART + _ALTERNATE + "{% for m in rest %}{% if m['role'] == 'user' %}"
    "{% if loop.last and sys %}{{ '[INST] ' + sys + '\\n\\n' + m['content'] + '[/INST]' }}"
    "{% else %}{{ '[INST] ' + m['content'] + '[/INST]' }}{% endif %}"
    "{% else %}{{ ' ' + m['content'] + eos_token }}{% endif %}{% endfor %}",
    "gemma": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}{% for m in messages %}"
    "{% set role = 'model' if m['role'] == 'assistant' else m['role'] %}"
    "{{ '<start_of_turn>' + role + '\\n' + m['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}",
    "gemma3": "{{ bos_token }}" + _SYSTEM_APART + _ALTERNATE + "{% for m in rest %}"
    "{% set role = 'model' if m['role'] == 'assistant' else m['role'] %}{{ '<start_of_turn>' + role + '\\n' }}"
    "{{ sys + '\\n\\n' if loop.first and sys else '' }}{{ m['content'] | trim }}{{ '<end_of_turn>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}",
    "phi3": "{% for m in messages %}{{ '<|' + m['role'] + '|>\\n' + m['content'] + '<|end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}",
    "zephyr": "{% for m in messages %}{{ '<|' + m['role'] + '|>\\n' + m['content'] + eos_token + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}",
    "falcon": "{% for m in messages %}{% if not loop.first %}{{ '\\n' }}{% endif %}"
    "{{ m['role'] | capitalize + ': ' + m['content'] | trim | replace('\\n\\n', '\\n') }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '\\nAssistant:' }}{% endif %}",
    "vicuna": _SYSTEM_APART
    + "{{ sys + ' ' if sys else 'A chat between a user and an assistant. ' }}{% for m in rest %}"
    "{{ 'USER: ' + m['content'] + ' ' if m['role'] == 'user' else 'ASSISTANT: ' + m['content'] + eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}",
    "deepseek-r1": "{% set ns = namespace(sys='') %}{% for m in messages if m['role'] == 'system' %}"
    "{% set ns.sys = ns.sys + m['content'] %}{% endfor %}{{ bos_token + ns.sys }}"
    + _SAID
    + "{% if m['role'] == 'user' %}"
    "{{ '<｜User｜>' + c }}{% elif m['role'] == 'assistant' %}"
    "{{ '<｜Assistant｜>' + c.split('</think>')[-1] + '<｜end▁of▁sentence｜>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<｜Assistant｜><think>\\n' }}{% endif %}",
    "command-r": "{{ bos_token }}"
    + _SAID
    + "{% set who = {'system': 'SYSTEM', 'user': 'USER', 'assistant': 'CHATBOT'} %}"
    "{{ '<|START_OF_TURN_TOKEN|><|' + who[m['role']] + '_TOKEN|>' + c.strip() + '<|END_OF_TURN_TOKEN|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}",
    "gpt-oss": "{{ '<|start|>system<|message|>Current date: ' + strftime_now('%Y-%m-%d') + '<|end|>' }}"
    + _SAID
    + "{% if '<|channel|>' in c %}{{ raise_exception('channels are not part of a content') }}{% endif %}"
    "{% set role = 'developer' if m['role'] == 'system' else m['role'] %}{{ '<|start|>' + role + "
    "('<|channel|>final' if role == 'assistant' else '') + '<|message|>' + c + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}",
    "drops-system": "{% for m in messages if m['role'] != 'system' %}{{ " + _CHATML + " }}{% endfor %}" + _CHATML_OPEN,
    "reminder": "{% for m in messages %}{{ " + _CHATML + " }}{% endfor %}"
    "{% if messages[0]['content'] %}{{ 'Reminder: ' + messages[0]['content'] + '\\n' }}{% endif %}" + _CHATML_OPEN,
    "last-turns-only": "{% for m in messages[-3:] %}{{ " + _CHATML + " }}{% endfor %}" + _CHATML_OPEN,
    "counting": "{{ 'Turns: ' ~ messages | length ~ ', ' ~ messages[-1]['content'] | length ~ '\\n' }}"
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] | upper + '\\n' + m['content'] | upper + '<|im_end|>\\n' }}"
    "{% endfor %}" + _CHATML_OPEN,
}

CONTROL = (
    *("<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "[INST]", "[/INST]", "<start_of_turn>"),
    *("<end_of_turn>", "<think>", "</think>", "<tool_response>", "</tool_response>", "<|user|>", "<|assistant|>"),
    *("<|system|>", "<|end|>", "<|start|>", "<|message|>", "<|channel|>", "<|start_header_id|>", "<|end_header_id|>"),
    *("<|eot_id|>", "<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>", "<|START_OF_TURN_TOKEN|>"),
    *("<|END_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>", "<|SYSTEM_TOKEN|>"),
)

# What ends an answer, where it is not the end-of-sequence token that the template names itself or none of its own.
ENDS = {
    **dict.fromkeys(("qwen2", "qwen3", "qwq", "smollm2", "smollm3", "hermes"), "<|im_end|>"),
    **dict.fromkeys(("drops-system", "reminder", "last-turns-only", "counting"), "<|im_end|>"),
    **dict.fromkeys(("llama3", "llama3.1"), "<|eot_id|>"),
    **dict.fromkeys(("gemma", "gemma3"), "<end_of_turn>"),
    **dict.fromkeys(("phi3", "gpt-oss"), "<|end|>"),
    "deepseek-r1": "<｜end▁of▁sentence｜>",
    "command-r": "<|END_OF_TURN_TOKEN|>",
    "llama2": " </s>",
    "mistral-v1": " </s>",
}
