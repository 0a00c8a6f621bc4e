#!/usr/bin/env python3
"""Tests the built server with the official OpenAI client, and with instructor on top of it.

    tests/scripts/openai-client.py                   with the storyteller of fixtures/ and a chat template
    tests/scripts/openai-client.py MODEL.gguf        with a chat model

Needs `pip install openai`, and target/release/verdigris; instructor's calls run if it is installed too (it needs older
versions of the client). Prints a line for each call; status 1 if one failed.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Literal

import openai
import pydantic

try:
    import instructor
except ImportError:
    instructor = None

HERE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target")) / "release/verdigris"
TEMPLATE = """{% if tools %}Tools:{% for t in tools %} {{ t | tojson }}{% endfor %}
{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}
{% endfor %}assistant: """

Unit = Literal["celsius", "fahrenheit"]


class Weather(pydantic.BaseModel):
    """The weather of a city."""

    city: Literal["Oslo", "Rome", "Lima"]
    unit: Unit
    days: int = pydantic.Field(ge=1, le=9)


class Person(pydantic.BaseModel):
    # Without this a text may have any number of other properties.
    model_config = pydantic.ConfigDict(extra="forbid")
    name: str = pydantic.Field(max_length=20)
    age: int = pydantic.Field(ge=0, le=120)
    likes: list[Literal["tea", "ships", "rain"]] = pydantic.Field(max_length=2)


class Answer(pydantic.BaseModel):
    answer: Literal["yes", "no"]


QUESTION = [{"role": "user", "content": "What will the weather be in Rome in the next three days?"}]
TOOLS = [
    openai.pydantic_function_tool(Weather, name="get_weather", description="The weather of a city"),
    {"type": "function", "function": {"name": "now", "description": "The time"}},
]
FLAT = [{"type": "function", **tool["function"]} for tool in TOOLS]

calls = []


def call(function):
    calls.append(function)
    return function


def check(condition, why=""):
    if not condition:
        raise AssertionError(why)


def raises(kind, status, ask, **fields):
    try:
        ask()
    except kind as error:
        check(error.status_code == status, error)
        for name, value in fields.items():
            check(getattr(error, name) == value, f"{name} is {getattr(error, name)!r}")
        return error
    raise AssertionError(f"no {kind.__name__}")


def chat(c, **more):
    return c.chat.completions.create(**{"model": c.name, "messages": QUESTION, "max_tokens": 60, "seed": 1, **more})


def complete(c, **more):
    return c.completions.create(**{"model": c.name, "prompt": "The captain", "max_tokens": 30, "seed": 1, **more})


def respond(c, **more):
    return c.responses.create(**{"model": c.name, "input": "Say hello.", "max_output_tokens": 60, **more})


@call
def models_list(c):
    check([model.id for model in c.models.list()] == [c.name])


@call
def models_retrieve(c):
    check(c.models.retrieve(c.name).owned_by == "verdigris")


@call
def models_unknown(c):
    raises(openai.NotFoundError, 404, lambda: c.models.retrieve("gpt-4"), code="model_not_found")


@call
def chat_plain(c):
    answer = chat(c)
    check(answer.choices[0].message.role == "assistant" and answer.choices[0].message.content)
    check(answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens)
    check(answer.watermark["status"] == "watermarked", answer.watermark)


@call
def chat_system(c):
    messages = [{"role": "system", "content": "Be brief."}, *QUESTION]
    check(chat(c, messages=messages).usage.prompt_tokens > 0)


@call
def chat_parts(c):
    parts = [{"type": "text", "text": QUESTION[0]["content"]}]
    whole = chat(c).choices[0].message.content
    check(chat(c, messages=[{"role": "user", "content": parts}]).choices[0].message.content == whole)


@call
def chat_seed_repeats(c):
    texts = [chat(c, seed=seed).choices[0].message.content for seed in (7, 7, 8)]
    check(texts[0] == texts[1] != texts[2], texts)


@call
def chat_stream(c):
    chunks = list(chat(c, stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    check(text == chat(c).choices[0].message.content)
    check(chunks[-1].choices[0].finish_reason in ("stop", "length"))


@call
def chat_stream_usage(c):
    *_, last = chat(c, stream=True, stream_options={"include_usage": True})
    check(last.choices == [] and last.usage.completion_tokens > 0)


@call
def chat_stream_helper(c):
    # The helper fails if tokens run out.
    form = {"structured_outputs": {"regex": "[a-z]{1,9}"}}
    with c.chat.completions.stream(model=c.name, messages=QUESTION, max_tokens=30, extra_body=form) as stream:
        events = [event.type for event in stream]
        final = stream.get_final_completion()
    check("content.delta" in events and final.choices[0].message.content)


@call
def chat_stream_closed_early(c):
    stream = chat(c, stream=True, max_tokens=200)
    next(iter(stream))
    stream.close()
    check(chat(c, max_tokens=5).usage.completion_tokens <= 5)


@call
def chat_n(c):
    answer = chat(c, n=3)
    check(len({choice.message.content for choice in answer.choices}) == 3)
    check([choice.index for choice in answer.choices] == [0, 1, 2])


@call
def chat_logprobs(c):
    tokens = chat(c, logprobs=True, top_logprobs=3).choices[0].logprobs.content
    check(all(token.logprob <= 0 and len(token.top_logprobs) == 3 for token in tokens) and len(tokens) > 3)


@call
def chat_stop(c):
    text = chat(c, max_tokens=60).choices[0].message.content
    stop = text[8:11]
    choice = chat(c, max_tokens=60, stop=[stop]).choices[0]
    check(choice.message.content == text[: text.find(stop)] and choice.finish_reason == "stop")


@call
def chat_greedy(c):
    texts = [chat(c, temperature=0, seed=seed).choices[0].message.content for seed in (1, 2)]
    check(texts[0] == texts[1])


@call
def chat_penalties_and_bias(c):
    chat(c, presence_penalty=0.5, frequency_penalty=0.5, logit_bias={"5": -100}, top_p=0.9)


@call
def chat_vllm_fields(c):
    answer = chat(c, extra_body={"top_k": 20, "min_p": 0.01, "return_token_ids": True, "repetition_penalty": 1.1})
    check(len(answer.choices[0].token_ids) == answer.usage.completion_tokens)


@call
def chat_unmarked(c):
    check(chat(c, extra_body={"watermarking": False}).watermark["status"] == "not_watermarked")


@call
def chat_json_object(c):
    text = chat(c, response_format={"type": "json_object"}, max_tokens=120).choices[0].message.content
    check(isinstance(json.loads(text), dict))


@call
def chat_json_schema(c):
    schema = {"name": "person", "strict": True, "schema": Person.model_json_schema()}
    text = chat(c, response_format={"type": "json_schema", "json_schema": schema}, max_tokens=120)
    Person.model_validate_json(text.choices[0].message.content)


@call
def chat_parse(c):
    answer = c.chat.completions.parse(model=c.name, messages=QUESTION, response_format=Person, max_tokens=120)
    check(isinstance(answer.choices[0].message.parsed, Person))


@call
def chat_stream_parse(c):
    ask = dict(model=c.name, messages=QUESTION, response_format=Person, max_tokens=120)
    with c.chat.completions.stream(**ask) as stream:
        check(isinstance(stream.get_final_completion().choices[0].message.parsed, Person))


@call
def chat_structured_outputs(c):
    text = chat(c, extra_body={"structured_outputs": {"choice": ["sunny", "rainy"]}}).choices[0].message.content
    check(text in ("sunny", "rainy"))


@call
def tools_auto(c):
    choice = chat(c, tools=TOOLS, max_tokens=100).choices[0]
    for made in choice.message.tool_calls or []:
        check(made.function.name in ("get_weather", "now"))
    check(choice.message.content or choice.message.tool_calls)


@call
def tools_none(c):
    check(chat(c, tools=TOOLS, tool_choice="none").choices[0].message.tool_calls is None)


@call
def tools_required(c):
    choice = chat(c, tools=TOOLS, tool_choice="required", max_tokens=200).choices[0]
    check(choice.finish_reason == "tool_calls")
    for made in choice.message.tool_calls:
        arguments = json.loads(made.function.arguments)
        Weather(**arguments) if made.function.name == "get_weather" else check(arguments == {})


@call
def tools_one_at_a_time(c):
    choice = chat(c, tools=TOOLS, tool_choice="required", parallel_tool_calls=False, max_tokens=100).choices[0]
    check(len(choice.message.tool_calls) == 1)


@call
def tools_named(c):
    named = {"type": "function", "function": {"name": "get_weather"}}
    (made,) = chat(c, tools=TOOLS, tool_choice=named, max_tokens=100).choices[0].message.tool_calls
    Weather.model_validate_json(made.function.arguments)


@call
def tools_parse(c):
    ask = dict(model=c.name, messages=QUESTION, tools=TOOLS[:1], tool_choice="required", max_tokens=150)
    made = c.chat.completions.parse(**ask).choices[0].message.tool_calls
    check(all(isinstance(one.function.parsed_arguments, Weather) for one in made))


@call
def tools_streamed(c):
    ask = dict(tools=TOOLS, tool_choice="required", max_tokens=200)
    whole = chat(c, **ask).choices[0].message.tool_calls
    made = []
    for chunk in chat(c, stream=True, **ask):
        for delta in chunk.choices[0].delta.tool_calls or []:
            if delta.id:
                check(delta.index == len(made) and delta.type == "function")
                made.append([delta.function.name, ""])
            made[delta.index][1] += delta.function.arguments or ""
    check(made == [[one.function.name, one.function.arguments] for one in whole], made)


@call
def tools_stream_helper(c):
    ask = dict(model=c.name, messages=QUESTION, tools=TOOLS[:1], tool_choice="required", max_tokens=150)
    with c.chat.completions.stream(**ask) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
    check(done and all(isinstance(event.parsed_arguments, Weather) for event in done))


@call
def tools_round_trip(c):
    named = {"type": "function", "function": {"name": "get_weather"}}
    message = chat(c, tools=TOOLS, tool_choice=named, max_tokens=100).choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": json.dumps({"sky": "clear"})}
    answer = chat(c, messages=[*QUESTION, message, result], tools=TOOLS, tool_choice="none")
    check(answer.choices[0].message.content)
    print(f"      {message.tool_calls[0].function.arguments} -> {answer.choices[0].message.content[:70]!r}")


@call
def tools_bad_schema(c):
    bad = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "number of"}}}}}
    error = raises(openai.BadRequestError, 400, lambda: chat(c, tools=[TOOLS[0], bad]), code="invalid_json_schema")
    check(error.param == "tools[1].function.parameters" and "#/properties/a" in error.message, error)


@call
def completion_plain(c):
    check(complete(c).choices[0].text)


@call
def completion_stream(c):
    text = "".join(chunk.choices[0].text for chunk in complete(c, stream=True))
    check(text == complete(c).choices[0].text)


@call
def completion_several_prompts(c):
    answer = complete(c, prompt=["The captain", "The sea"], n=2)
    check(len(answer.choices) == 4)


@call
def completion_tokens(c):
    ids = c.post(f"{c.root}/tokenize", cast_to=object, body={"prompt": "The captain"})["tokens"]
    check(complete(c, prompt=ids).choices[0].text == complete(c).choices[0].text)


@call
def completion_logprobs_and_echo(c):
    choice = complete(c, logprobs=2, echo=True).choices[0]
    check(choice.text.startswith("The captain") and len(choice.logprobs.top_logprobs) > 3)


@call
def responses_plain(c):
    answer = respond(c)
    check(answer.output_text and answer.status in ("completed", "incomplete") and answer.usage.output_tokens > 0)


@call
def responses_items(c):
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Hello."}]},
        {"role": "assistant", "content": "Good day."},
        {"role": "user", "content": "Who are you?"},
    ]
    check(respond(c, input=items, instructions="Be brief.").output_text)


@call
def responses_stream(c):
    events = list(respond(c, stream=True, extra_body={"seed": 4}))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    kinds = [event.type for event in events]
    check(kinds[:2] == ["response.created", "response.in_progress"], kinds)
    check(kinds[-1] in ("response.completed", "response.incomplete"), kinds)
    check(text == events[-1].response.output_text == respond(c, extra_body={"seed": 4}).output_text)


@call
def responses_stream_helper(c):
    with c.responses.stream(model=c.name, input="Say hello.", max_output_tokens=400) as stream:
        for _ in stream:
            pass


@call
def responses_parse(c):
    answer = c.responses.parse(model=c.name, input="Who?", text_format=Person, max_output_tokens=150)
    check(isinstance(answer.output_parsed, Person))


@call
def responses_tools(c):
    items = [{"role": "user", "content": QUESTION[0]["content"]}]
    named = {"type": "function", "name": "get_weather"}
    answer = respond(c, input=items, tools=FLAT, tool_choice=named, max_output_tokens=120)
    (made,) = answer.output
    Weather.model_validate_json(made.arguments)
    items += [made, {"type": "function_call_output", "call_id": made.call_id, "output": "clear"}]
    check(respond(c, input=items, tools=FLAT, tool_choice="none").output_text)


@call
def responses_nothing_is_stored(c):
    check(respond(c).store is False)
    raises(openai.BadRequestError, 400, lambda: respond(c, previous_response_id="resp_1"), param="previous_response_id")


@call
def error_authentication(c):
    other = c.with_options(api_key="another key of nobody")
    other.name = c.name
    raises(openai.AuthenticationError, 401, lambda: chat(other), code="invalid_api_key")


@call
def error_bad_request(c):
    raises(openai.BadRequestError, 400, lambda: chat(c, temperature=9), param="temperature")
    raises(openai.BadRequestError, 400, lambda: chat(c, extra_body={"best": 1}), param="best", code="unknown_field")


@call
def error_not_found(c):
    raises(openai.NotFoundError, 404, lambda: chat(c, model="gpt-4"), param="model")


@call
def error_too_long(c):
    messages = [{"role": "user", "content": "word " * 30_000}]
    raises(openai.BadRequestError, 400, lambda: chat(c, messages=messages), code="context_length_exceeded")


@call
def error_body_too_large(c):
    messages = [{"role": "user", "content": "x" * 1_000_000}]
    raises(openai.APIStatusError, 413, lambda: chat(c, messages=messages), code="body_too_large")


@call
def error_rate_limit(c):
    streams = [chat(c, stream=True, max_tokens=300, n=50) for _ in range(2)]
    try:
        error = raises(openai.RateLimitError, 429, lambda: chat(c), code="overloaded")
        check(int(error.response.headers["retry-after"]) > 0)
    finally:
        [stream.close() for stream in streams]
        # The server notices a little later that the streams are closed.
        for _ in range(50):
            try:
                return chat(c, max_tokens=1)
            except openai.RateLimitError:
                time.sleep(0.1)


@call
def error_before_a_stream(c):
    bad = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "nothing"}}}
    raises(openai.BadRequestError, 400, lambda: chat(c, stream=True, response_format=bad), code="invalid_json_schema")


def typed_call(function):
    return call(function) if instructor else function


def typed(c, mode):
    client = instructor.from_openai(c, mode=mode)
    ask = dict(model=c.name, messages=[{"role": "user", "content": "Ann is 30 and likes tea."}], max_tokens=150)
    check(isinstance(client.chat.completions.create(response_model=Person, max_retries=0, **ask), Person))


@typed_call
def instructor_tools(c):
    typed(c, instructor.Mode.TOOLS)


@typed_call
def instructor_json_schema(c):
    typed(c, instructor.Mode.JSON_SCHEMA)


@typed_call
def instructor_yes_or_no(c):
    client = instructor.from_openai(c, mode=instructor.Mode.TOOLS)
    ask = dict(model=c.name, messages=[{"role": "user", "content": "Is water wet?"}], max_tokens=60)
    check(client.chat.completions.create(response_model=Answer, max_retries=0, **ask).answer in ("yes", "no"))


def serve(folder, model):
    """Starts a server of a model, with a key, for two requests at a time."""
    run = lambda *arguments: subprocess.run([PROGRAM, *arguments], cwd=folder, check=True, capture_output=True)
    run("key", "new", "my.key", "--model", model)
    (folder / "keys.txt").write_text("client 0123456789abcdef\n")
    options = ["--key", "my.key", "--api-key-file", "keys.txt", "--max-requests", "2", "--max-body", "900000"]
    # A file, since a pipe would not be read meanwhile.
    with open(folder / "log", "w") as log:
        command = [PROGRAM, "serve", "--port", "0", "--model", model, "--served-model-name", "teller", *options]
        server = subprocess.Popen(command, cwd=folder, stderr=log)
    for _ in range(600):
        for line in (folder / "log").read_text().splitlines():
            if line.startswith("listening at "):
                return server, line.split()[-1]
        time.sleep(0.1)
    server.kill()
    raise SystemExit("the server did not start")


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if len(sys.argv) > 1:
            model = str(pathlib.Path(sys.argv[1]).resolve())
        else:
            model = str(folder / "teller")
            shutil.copytree(HERE / "fixtures/models/tale", model)
            (folder / "teller/chat_template.jinja").write_text(TEMPLATE)
        server, url = serve(folder, model)
        failed = 0
        try:
            client = openai.OpenAI(base_url=f"{url}/v1", api_key="0123456789abcdef", max_retries=0, timeout=120)
            client.name, client.root = "teller", url
            for number, function in enumerate(calls, 1):
                try:
                    function(client)
                    print(f"{number:3} ok     {function.__name__}", flush=True)
                except Exception as error:
                    failed += 1
                    print(f"{number:3} FAILED {function.__name__}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        finally:
            server.terminate()
            server.wait(30)
        print(f"{len(calls) - failed} passed, {failed} failed")
        sys.exit(failed > 0)


main()
