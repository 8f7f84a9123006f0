"""Instructor: models from calls, from JSON by schema, in parts."""

import instructor
import openai
import shared

ASKED = {
    "model": shared.MODEL,
    "messages": [{"role": "user", "content": shared.QUESTION}],
    "max_tokens": shared.MAX_TOKENS,
    "extra_body": shared.BODY,
    "max_retries": 0,
    "seed": 7,
}
sdk = openai.OpenAI(base_url=shared.URL, api_key=shared.KEY, max_retries=0)
modes = instructor.Mode
for mode in (modes.TOOLS, modes.TOOLS_STRICT, modes.JSON_SCHEMA, modes.JSON):
    client = instructor.from_openai(sdk, mode=mode)
    if mode is not modes.JSON:  # which asks for any object, in words alone
        made = client.chat.completions.create(**ASKED, response_model=shared.Weather)
        assert isinstance(made, shared.Weather)
        parts = [*client.chat.completions.create_partial(**ASKED, response_model=shared.Weather)]
        assert parts[-1].city is not None
    else:
        answer = client.chat.completions.create(**ASKED, response_model=None)
        assert answer.choices[0].finish_reason
    shared.done(f"{mode}")
