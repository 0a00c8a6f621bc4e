#!/usr/bin/env python3
"""Tests the built servers with official clients: openai, anthropic, ollama, langchain-openai, litellm, instructor and
mcp.

    tests/scripts/clients.py                   with the storyteller of fixtures/ and a chat template
    tests/scripts/clients.py MODEL.gguf ...    also with these chat models

Needs `pip install openai anthropic ollama langchain-openai litellm mcp instructor`, and target/release/verdigris with
the feature `mcp` (`cargo build --release --features verdigris-cli/mcp`). Each model is served twice, under two names. Prints
a line for each check that fails, and the number of checks that passed for each client and model; status 1 if one
failed. The output is in docs/measurements/clients.txt.
"""

import asyncio
import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request
from typing import Literal

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import anthropic
import instructor
import litellm
import ollama
import openai
import pydantic
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from mcp import Client, StdioServerParameters

HERE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target")) / "release/verdigris"
TEMPLATE = """{% if tools %}Tools:{% for t in tools %} {{ t | tojson }}{% endfor %}
{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}{% if not loop.last or add_generation_prompt %}{{ '\\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}assistant: {% endif %}"""
# The second name of the model.
SECOND = "second"
MARKS = ("watermarked", "too_weak", "skipped")

litellm.suppress_debug_info = True
checks = []


class Weather(pydantic.BaseModel):
    """The weather of a city."""

    model_config = pydantic.ConfigDict(extra="forbid")
    city: Literal["Oslo", "Rome", "Lima"]
    days: int = pydantic.Field(ge=1, le=9)


class City(pydantic.BaseModel):
    """A city."""

    model_config = pydantic.ConfigDict(extra="forbid")
    city: Literal["Oslo", "Rome", "Lima"]


ASK = [{"role": "user", "content": "What will the weather be in Rome?"}]
FUNCTION = {"name": "weather", "description": "The weather of a city", "parameters": Weather.model_json_schema()}
TOOLS = [{"type": "function", "function": FUNCTION}]
INPUT = {"name": "weather", "description": "The weather of a city", "input_schema": Weather.model_json_schema()}


def of(client):
    def add(function):
        checks.append((client, function))
        return function

    return add


def check(condition, why=""):
    if not condition:
        raise AssertionError(why)


def refused(kind, status, ask):
    try:
        ask()
    except kind as error:
        check(error.status_code == status, error)
        return error
    raise AssertionError(f"no {kind.__name__}")


# OpenAI's client; tests/scripts/openai-client.py has more.


def chat(s, **more):
    return s.openai.chat.completions.create(**{"model": s.name, "messages": ASK, "max_tokens": 40, "seed": 1, **more})


@of("openai")
def openai_chat(s):
    answer = chat(s, store=True, metadata={"a": "b"}, verbosity="low", prompt_cache_key="k", modalities=["text"])
    check(answer.choices[0].message.content and answer.watermark["status"] in MARKS, answer)


@of("openai")
def openai_stream(s):
    chunks = list(chat(s, stream=True))
    check("".join(c.choices[0].delta.content or "" for c in chunks) == chat(s).choices[0].message.content)


@of("openai")
def openai_functions(s):
    message = chat(s, functions=[FUNCTION], function_call={"name": "weather"}, max_tokens=90).choices[0].message
    Weather.model_validate_json(message.function_call.arguments)
    result = {"role": "function", "name": "weather", "content": "clear"}
    after = chat(s, messages=[*ASK, message, result], functions=[FUNCTION], function_call="none")
    check(after.choices[0].message.content)


@of("openai")
def openai_tools(s):
    message = chat(s, tools=TOOLS, tool_choice="required", max_tokens=150).choices[0].message
    Weather.model_validate_json(message.tool_calls[0].function.arguments)


@of("openai")
def openai_parse(s):
    answer = s.openai.chat.completions.parse(model=s.name, messages=ASK, response_format=Weather, max_tokens=90)
    check(isinstance(answer.choices[0].message.parsed, Weather))


@of("openai")
def openai_embeddings(s):
    asked = dict(model=s.name, input=["The sea", "A boat"])
    # Without a format the client asks for base64.
    coded = s.openai.embeddings.create(**asked)
    plain = s.openai.embeddings.create(**asked, encoding_format="float")
    check(all(abs(a - b) < 1e-6 for a, b in zip(coded.data[1].embedding, plain.data[1].embedding, strict=True)))
    few = s.openai.embeddings.create(**asked, dimensions=16, user="u")
    check(len(few.data[0].embedding) == 16 and few.usage.prompt_tokens > 1)
    refused(openai.NotFoundError, 404, lambda: s.openai.embeddings.create(model="ada", input="x"))


@of("openai")
def openai_several_models(s):
    check([model.id for model in s.openai.models.list()] == [s.name, SECOND])
    answers = [chat(s, model=model) for model in (s.name, SECOND)]
    check([answer.model for answer in answers] == [s.name, SECOND])
    check(answers[0].choices[0].message.content == answers[1].choices[0].message.content)


@of("openai")
def openai_guided(s):
    text = chat(s, extra_body={"guided_choice": ["sun", "rain"]}).choices[0].message.content
    check(text in ("sun", "rain"), text)


@of("openai")
def openai_continues(s):
    begun = [*ASK, {"role": "assistant", "content": "The weather in Rome"}]
    extra = {"continue_final_message": True, "add_generation_prompt": False}
    check(chat(s, messages=begun, extra_body=extra).choices[0].message.content)


@of("openai")
def openai_unknown_field(s):
    create = s.openai.chat.completions.with_raw_response.create
    raw = create(model=s.name, messages=ASK, max_tokens=5, extra_body={"mood": "x"})
    check(raw.headers["x-ignored-fields"] == "mood" and raw.parse().choices)


@of("openai")
def openai_foreign_field(s):
    error = refused(openai.BadRequestError, 400, lambda: chat(s, extra_body={"best_of": 3}))
    check(error.code == "unsupported_field" and error.param == "best_of")


@of("openai")
def openai_responses(s):
    answer = s.openai.responses.create(model=s.name, input="Hello.", max_output_tokens=30, truncation="auto")
    check(answer.output_text)


# Anthropic's client.


def message(s, **more):
    return s.anthropic.messages.create(**{"model": s.name, "messages": ASK, "max_tokens": 40, **more})


SEED = {"extra_body": {"seed": 1}}


@of("anthropic")
def anthropic_message(s):
    # This version of the client has no arguments for sampling.
    sampling = {"temperature": 0.5, "top_k": 40}
    answer = message(s, system="Be brief.", metadata={"user_id": "u"}, extra_body=sampling)
    check(answer.content[0].text and answer.stop_reason in ("end_turn", "max_tokens"), answer)
    check(answer.watermark["status"] in MARKS and answer.usage.input_tokens > 3, answer)


@of("anthropic")
def anthropic_stream(s):
    with s.anthropic.messages.stream(model=s.name, messages=ASK, max_tokens=40, **SEED) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    check(text == final.content[0].text == message(s, **SEED).content[0].text, text)
    check(final.usage.output_tokens > 0 and final.usage.input_tokens > 3 and final.stop_reason)


@of("anthropic")
def anthropic_events(s):
    events = list(message(s, stream=True))
    kinds = [event.type for event in events]
    check(kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"], kinds)
    check(events[-2].watermark["status"] in MARKS)


@of("anthropic")
def anthropic_system_blocks(s):
    blocks = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    content = [{"type": "text", "text": "Hello.", "cache_control": {"type": "ephemeral"}}]
    check(message(s, system=blocks, messages=[{"role": "user", "content": content}]).content[0].text)


@of("anthropic")
def anthropic_tools(s):
    for choice in ({"type": "any"}, {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}):
        answer = message(s, tools=[INPUT], tool_choice=choice, max_tokens=150)
        calls = [block for block in answer.content if block.type == "tool_use"]
        check(answer.stop_reason == "tool_use" and calls, answer)
        [Weather.model_validate(call.input) for call in calls]


@of("anthropic")
def anthropic_tools_streamed(s):
    ask = dict(model=s.name, messages=ASK, tools=[INPUT], tool_choice={"type": "any"}, max_tokens=150)
    with s.anthropic.messages.stream(**ask) as stream:
        events = [event.type for event in stream]
        final = stream.get_final_message()
    check("input_json" in events, events)
    [Weather.model_validate(block.input) for block in final.content if block.type == "tool_use"]


@of("anthropic")
def anthropic_tool_round_trip(s):
    choice = {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}
    answer = message(s, tools=[INPUT], tool_choice=choice, max_tokens=150)
    call = next(block for block in answer.content if block.type == "tool_use")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "clear", "is_error": False}
    messages = [*ASK, {"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
    check(message(s, messages=messages, tools=[INPUT], tool_choice={"type": "none"}).content[0].text)


@of("anthropic")
def anthropic_stop(s):
    text = message(s, **SEED).content[0].text
    stop = text[8:11]
    answer = message(s, stop_sequences=[stop], **SEED)
    check(answer.stop_reason == "stop_sequence" and answer.stop_sequence == stop, answer)
    check(answer.content[0].text == text[: text.find(stop)])


@of("anthropic")
def anthropic_prefill(s):
    check(message(s, messages=[*ASK, {"role": "assistant", "content": "The weather in Rome"}]).content[0].text)


@of("anthropic")
def anthropic_output_config(s):
    wanted = {"type": "json_schema", "schema": Weather.model_json_schema()}
    answer = message(s, max_tokens=90, output_config={"format": wanted})
    Weather.model_validate_json(answer.content[0].text)


@of("anthropic")
def anthropic_parse(s):
    # The client leaves out bounds of numbers.
    answer = s.anthropic.messages.parse(model=s.name, messages=ASK, max_tokens=90, output_format=City)
    check(isinstance(answer.parsed_output, City))


@of("anthropic")
def anthropic_count_tokens(s):
    counted = s.anthropic.messages.count_tokens(model=s.name, messages=ASK, system="Be brief.")
    check(counted.input_tokens == message(s, system="Be brief.").usage.input_tokens)


@of("anthropic")
def anthropic_thinking(s):
    check(message(s, thinking={"type": "disabled"}).content)
    past = [{"type": "thinking", "thinking": "Hm.", "signature": "x"}, {"type": "text", "text": "Hello."}]
    check(message(s, messages=[*ASK, {"role": "assistant", "content": past}, *ASK]).content)
    enabled = {"type": "enabled", "budget_tokens": 1024}
    refused(anthropic.BadRequestError, 400, lambda: message(s, thinking=enabled, max_tokens=2000))


@of("anthropic")
def anthropic_errors(s):
    error = refused(anthropic.NotFoundError, 404, lambda: message(s, model="claude"))
    check(error.body["error"]["type"] == "not_found_error", error.body)
    refused(anthropic.BadRequestError, 400, lambda: message(s, messages=[]))


@of("anthropic")
def anthropic_models(s):
    check([model.id for model in s.anthropic.models.list()] == [s.name, SECOND])


@of("anthropic")
def anthropic_async(s):
    async def ask():
        async with anthropic.AsyncAnthropic(base_url=s.root, api_key="none") as client:
            async with client.messages.stream(model=s.name, messages=ASK, max_tokens=20) as stream:
                return await stream.get_final_text()

    check(asyncio.run(ask()))


# Ollama's client.

OPTIONS = {"num_predict": 40, "seed": 1, "num_ctx": 2048, "repeat_last_n": 64, "mirostat": 0}


@of("ollama")
def ollama_chat(s):
    answer = s.ollama.chat(model=s.name, messages=ASK, options=OPTIONS, keep_alive="5m", think=False)
    check(answer.message.content and answer.done and answer.eval_count > 0 and answer.total_duration > 0, answer)
    # The client drops fields that it does not know.
    raw = s.ollama._client.post("/api/chat", json={"messages": ASK, "options": OPTIONS, "stream": False}).json()
    check(raw["watermark"]["status"] in MARKS and raw["message"]["content"] == answer.message.content)


@of("ollama")
def ollama_stream(s):
    chunks = list(s.ollama.chat(model=s.name, messages=ASK, options=OPTIONS, stream=True))
    whole = s.ollama.chat(model=s.name, messages=ASK, options=OPTIONS).message.content
    check("".join(chunk.message.content for chunk in chunks) == whole)
    check(chunks[-1].done and chunks[-1].done_reason in ("stop", "length"))


@of("ollama")
def ollama_tools(s):
    def weather(city: str) -> str:
        """The weather of a city.

        Args:
            city: the city
        """
        return f"{city}: clear"

    asked = dict(model=s.name, tools=[weather], options=OPTIONS)
    check(s.ollama.chat(messages=ASK, **asked).message is not None)
    call = {"function": {"name": "weather", "arguments": {"city": "Rome"}}}
    past = [*ASK, {"role": "assistant", "content": "", "tool_calls": [call]}]
    past += [{"role": "tool", "tool_name": "weather", "content": weather("Rome")}]
    answer = s.ollama.chat(messages=past, **asked)
    check(answer.message.content or answer.message.tool_calls)


@of("ollama")
def ollama_format(s):
    answer = s.ollama.chat(model=s.name, messages=ASK, format=Weather.model_json_schema(), options={"num_predict": 90})
    Weather.model_validate_json(answer.message.content)
    answer = s.ollama.chat(model=s.name, messages=ASK, format="json", options={"num_predict": 150})
    check(isinstance(json.loads(answer.message.content), dict))


@of("ollama")
def ollama_generate(s):
    check(s.ollama.generate(model=s.name, prompt="Hello.", system="Be brief.", options=OPTIONS).response)
    chunks = list(s.ollama.generate(model=f"{s.name}:latest", prompt="The sea", raw=True, options=OPTIONS, stream=True))
    check("".join(chunk.response for chunk in chunks) and chunks[-1].done)


@of("ollama")
def ollama_load(s):
    check(s.ollama.generate(model=s.name).done_reason == "load")


@of("ollama")
def ollama_list(s):
    check([model.model for model in s.ollama.list().models] == [s.name, SECOND])
    check(s.ollama.ps().models[0].context_length > 0)


@of("ollama")
def ollama_show(s):
    shown = s.ollama.show(s.name)
    check("completion" in shown.capabilities and shown.template and shown.modelinfo)


@of("ollama")
def ollama_logprobs(s):
    answer = s.ollama.chat(model=s.name, messages=ASK, options=OPTIONS, logprobs=True, top_logprobs=2)
    check(len(answer.logprobs) == answer.eval_count)


@of("ollama")
def ollama_errors(s):
    refused(ollama.ResponseError, 404, lambda: s.ollama.chat(model="llama3", messages=ASK))
    refused(ollama.ResponseError, 400, lambda: s.ollama.chat(model=s.name, messages=ASK, think=True))
    refused(ollama.ResponseError, 404, lambda: s.ollama.embed(model="llama3", input="x"))


@of("ollama")
def ollama_async(s):
    async def ask():
        chunks = await ollama.AsyncClient(host=s.root).chat(model=s.name, messages=ASK, options=OPTIONS, stream=True)
        return "".join([chunk.message.content async for chunk in chunks])

    check(asyncio.run(ask()))


@of("ollama")
def ollama_embed(s):
    answer = s.ollama.embed(model=s.name, input=["The sea", "A boat"], dimensions=32)
    check([len(vector) for vector in answer.embeddings] == [32, 32] and answer.prompt_eval_count > 1)
    whole = s.ollama.embed(model=s.name, input="The sea").embeddings[0]
    check(abs(sum(x * x for x in whole) - 1) < 1e-3)
    check(list(s.ollama.embeddings(model=s.name, prompt="The sea").embedding) == list(whole))


@of("ollama")
def ollama_several_models(s):
    texts = [s.ollama.chat(model=model, messages=ASK, options=OPTIONS).message.content for model in (s.name, SECOND)]
    check(texts[0] == texts[1])
    check({model.model for model in s.ollama.ps().models} == {s.name, SECOND})


# LangChain.


def langchain(s, **more):
    asked = {"model": s.name, "base_url": f"{s.root}/v1", "api_key": "none", "max_tokens": 40, "seed": 1, **more}
    return ChatOpenAI(**asked)


@tool
def get_weather(city: Literal["Oslo", "Rome"]) -> str:
    """The weather of a city."""
    return f"{city}: clear"


@of("langchain-openai")
def langchain_invoke(s):
    answer = langchain(s).invoke([SystemMessage("Be brief."), HumanMessage("Hello.")])
    check(answer.content and answer.usage_metadata["input_tokens"] > 3)


@of("langchain-openai")
def langchain_stream(s):
    check("".join(chunk.content for chunk in langchain(s, stream_usage=True).stream("Hello.")))


@of("langchain-openai")
def langchain_options(s):
    model = langchain(s, verbosity="low", temperature=0.5, top_p=0.9, include_response_headers=True)
    check(model.invoke("Hi.").content)


@of("langchain-openai")
def langchain_json_schema(s):
    for method in ("json_schema", "function_calling"):
        model = langchain(s, max_tokens=120).with_structured_output(Weather, method=method)
        check(isinstance(model.invoke("The weather in Rome?"), Weather), method)


@of("langchain-openai")
def langchain_tools(s):
    model = langchain(s, max_tokens=120)
    calling = model.bind_tools([get_weather], tool_choice="get_weather", strict=True, parallel_tool_calls=False)
    answer = calling.invoke("The weather in Rome?")
    call = answer.tool_calls[0]
    result = ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])
    final = model.bind_tools([get_weather], tool_choice="none").invoke([HumanMessage("Rome?"), answer, result])
    check(final.content)


@of("langchain-openai")
def langchain_responses(s):
    check(langchain(s, use_responses_api=True, seed=None).invoke("Hello.").text)


@of("langchain-openai")
def langchain_batch(s):
    check(len(langchain(s).batch(["Hello.", "Good day."])) == 2)


@of("langchain-openai")
def langchain_embeddings(s):
    asked = {"model": s.name, "base_url": f"{s.root}/v1", "api_key": "none", "check_embedding_ctx_length": False}
    model = OpenAIEmbeddings(**asked)
    vectors = model.embed_documents(["The sea", "A boat"])
    check(len(vectors) == 2 and model.embed_query("The sea") == vectors[0])


# LiteLLM, in each of its protocols.


def lite(s, provider, **more):
    base = {"openai": f"{s.root}/v1", "hosted_vllm": f"{s.root}/v1", "text-completion-openai": f"{s.root}/v1"}
    asked = {"messages": ASK, "max_tokens": 40, "api_key": "none", "api_base": base.get(provider, s.root), **more}
    return litellm.completion(model=f"{provider}/{s.name}", **asked)


@of("litellm")
def litellm_completion(s):
    for provider in ("openai", "hosted_vllm", "anthropic", "ollama_chat", "ollama"):
        answer = lite(s, provider)
        check(answer.choices[0].message.content and answer.usage.completion_tokens > 0, f"{provider}: {answer}")


@of("litellm")
def litellm_stream(s):
    for provider in ("openai", "hosted_vllm", "anthropic", "ollama_chat", "ollama"):
        text = "".join(chunk.choices[0].delta.content or "" for chunk in lite(s, provider, stream=True))
        check(text, provider)


@of("litellm")
def litellm_tools(s):
    for provider in ("openai", "hosted_vllm", "anthropic"):
        answer = lite(s, provider, tools=TOOLS, tool_choice="required", max_tokens=150)
        Weather.model_validate_json(answer.choices[0].message.tool_calls[0].function.arguments)


@of("litellm")
def litellm_schema(s):
    about = {"name": "w", "schema": Weather.model_json_schema(), "strict": True}
    schema = {"type": "json_schema", "json_schema": about}
    for provider in ("openai", "hosted_vllm", "ollama_chat"):
        answer = lite(s, provider, response_format=schema, max_tokens=120)
        Weather.model_validate_json(answer.choices[0].message.content)


@of("litellm")
def litellm_options(s):
    check(lite(s, "openai", user="u", seed=3, n=2, stop=["zzz"], logit_bias={"5": -10}, temperature=0.3).choices[1])
    check(lite(s, "anthropic", user="u", stop=["zzz"], top_k=20, temperature=0.3).choices[0])


@of("litellm")
def litellm_errors(s):
    for provider in ("openai", "anthropic"):
        refused(litellm.BadRequestError, 400, lambda: lite(s, provider, temperature=900))


# Instructor.


def person(client, s, **more):
    ask = dict(model=s.name, messages=ASK, response_model=Weather, max_tokens=150, max_retries=0)
    check(isinstance(client.chat.completions.create(**ask, **more), Weather))


@of("instructor")
def instructor_tools(s):
    person(instructor.from_openai(s.openai, mode=instructor.Mode.TOOLS), s)


@of("instructor")
def instructor_json_schema(s):
    person(instructor.from_openai(s.openai, mode=instructor.Mode.JSON_SCHEMA), s)


@of("instructor")
def instructor_functions(s):
    answer = chat(s, functions=[FUNCTION], function_call={"name": "weather"}, max_tokens=150)
    Weather.model_validate_json(answer.choices[0].message.function_call.arguments)


@of("instructor")
def instructor_anthropic(s):
    person(instructor.from_anthropic(s.anthropic, mode=instructor.Mode.ANTHROPIC_TOOLS), s)


@of("instructor")
def instructor_partial(s):
    client = instructor.from_openai(s.openai, mode=instructor.Mode.TOOLS)
    parts = client.chat.completions.create_partial(
        model=s.name, messages=ASK, response_model=Weather, max_tokens=150, max_retries=0
    )
    *_, last = parts
    Weather.model_validate(last.model_dump())


# The client of the Model Context Protocol, for `verdigris mcp`.


async def use_tools(server, mode, text):
    """Uses each tool, and returns what they find."""
    async with Client(server, mode=mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        check(names == ["detect", "identify", "mark_status"], names)
        found = []
        for name in names:
            result = await client.call_tool(name, {"text": text})
            check(not result.is_error and json.loads(result.content[0].text) == result.structured_content, result)
            found.append(result.structured_content)
        failed = await client.call_tool("detect", {"text": 3})
        check(failed.is_error and "invalid type" in failed.content[0].text, failed)
        return found


def marked(s):
    asked = dict(model=s.name, prompt="The sea", max_tokens=250, seed=1, extra_body={"ignore_eos": True})
    return s.openai.completions.create(**asked).choices[0].text


def options_of_mcp(s):
    return ["mcp", "--key", str(s.folder / "my.key"), "--model", str(s.folder / s.model)]


@of("mcp")
def mcp_stdio(s):
    text = marked(s)
    program = StdioServerParameters(command=str(PROGRAM), args=options_of_mcp(s))
    for mode in ("legacy", "auto"):
        detected, identified, status = asyncio.run(use_tools(program, mode, text))
        check(detected["verdict"] == identified["verdict"] == "marked", detected)
        check(status["status"] == "watermarked", status)
    asked = urllib.request.Request(f"{s.root}/detect", json.dumps({"text": text}).encode())
    with urllib.request.urlopen(asked) as answer:
        judged = json.load(answer)
    check(judged["p"] == detected["p"] and judged["key_id"] == detected["key_id"])


@of("mcp")
def mcp_http(s):
    log = s.folder / "mcp.log"
    with open(log, "w") as out:
        process = subprocess.Popen([PROGRAM, *options_of_mcp(s), "--http", "127.0.0.1:0"], stderr=out)
    try:
        address = Server.address(log)
        for mode in ("legacy", "auto"):
            detected, *_ = asyncio.run(use_tools(address, mode, "A text without a mark, about the sea."))
            check(detected["verdict"] in ("not marked", "too short"), detected)
    finally:
        process.terminate()
        check(process.wait(60) == 0)


class Server:
    """A server in a folder, and the clients for it."""

    def __init__(self, folder, model):
        folder = pathlib.Path(folder)
        if model is None:
            shutil.copytree(HERE / "fixtures/models/tale-small", folder / "teller")
            (folder / "teller/chat_template.jinja").write_text(TEMPLATE)
            model, self.name = "teller", "teller"
        else:
            model = pathlib.Path(model).resolve()
            self.name = model.stem
        run = dict(cwd=folder, check=True, capture_output=True)
        subprocess.run([PROGRAM, "key", "new", "my.key", "--model", model], **run)
        self.folder, self.model = folder, model
        models = ["--model", f"{self.name}={model}", "--model", f"{SECOND}={model}"]
        options = ["--port", "0", *models, "--key", "my.key"]
        # A file, since a pipe would not be read meanwhile.
        self.log = open(folder / "log", "w")
        self.process = subprocess.Popen([PROGRAM, "serve", *options], cwd=folder, stderr=self.log)
        self.root = self.address(folder / "log")
        self.openai = openai.OpenAI(base_url=f"{self.root}/v1", api_key="none", max_retries=0, timeout=300)
        self.anthropic = anthropic.Anthropic(base_url=self.root, api_key="none", max_retries=0, timeout=300)
        self.ollama = ollama.Client(host=self.root)

    @staticmethod
    def address(log):
        for _ in range(600):
            for line in log.read_text().splitlines():
                if line.startswith("listening at "):
                    return line.split()[-1]
            time.sleep(0.1)
        raise SystemExit("the server did not start")

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


def main():
    passed, failed = {}, 0
    models = [None, *sys.argv[1:]]
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            server = Server(folder, model)
            try:
                for client, function in checks:
                    good, all_of = passed.get((client, server.name), (0, 0))
                    try:
                        function(server)
                        good += 1
                    except Exception:
                        failed += 1
                        print(f"FAILED {server.name} {function.__name__}: {traceback.format_exc(limit=-2)}")
                    passed[client, server.name] = (good, all_of + 1)
            finally:
                server.stop()
    version = importlib.metadata.version
    for (client, model), (good, all_of) in passed.items():
        print(f"{client} {version(client)}, {model}: {good} of {all_of} passed")
    sys.exit(failed > 0)


main()
