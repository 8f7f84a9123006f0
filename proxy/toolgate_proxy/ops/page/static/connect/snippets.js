// Settings and calls of the clients in docs/guide/clients.md. tests/proxy/process/test_browser.py runs the
// calls, and compares the settings with those of `toolgate launch`, with which tests run Claude Code and Codex.

const QUESTION = "What's the weather in Beijing and Shanghai?";

const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather in a city, now",
    parameters: {
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
      additionalProperties: false,
    },
  },
};

const request = (model) => ({
  model,
  messages: [{ role: "user", content: QUESTION }],
  tools: [weather],
  tool_choice: "required",
});

const inShell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const quoted = (text) => JSON.stringify(text);

const curl = (url, model) => `curl ${url}/v1/chat/completions \\
  -H "Authorization: Bearer $TOOLGATE_API_KEY" \\
  -H 'Content-Type: application/json' \\
  -d ${inShell(JSON.stringify(request(model)))}`;

const python = (url, model) => `import os
from openai import OpenAI

client = OpenAI(base_url=${quoted(`${url}/v1`)}, api_key=os.environ["TOOLGATE_API_KEY"])
response = client.chat.completions.create(
    model=${quoted(model)},
    messages=[{"role": "user", "content": ${quoted(QUESTION)}}],
    tools=[{"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}],
    tool_choice="required",
)
for call in response.choices[0].message.tool_calls:
    print(call.function.name, call.function.arguments)`;

const javascript = (url, model) => `import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${quoted(`${url}/v1`)}, apiKey: process.env.TOOLGATE_API_KEY });
const response = await client.chat.completions.create({
  model: ${quoted(model)},
  messages: [{ role: "user", content: ${quoted(QUESTION)} }],
  tools: [{ type: "function", function: { name: "get_weather", parameters: {
    type: "object", properties: { city: { type: "string" } }, required: ["city"] } } }],
  tool_choice: "required",
});
console.log(response.choices[0].message.tool_calls);`;

const langchain = (url, model) => `import os
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

@tool
def get_weather(city: str) -> str:
    """The weather in a city, now"""
    return "sunny"

model = ChatOpenAI(base_url=${quoted(`${url}/v1`)}, api_key=os.environ["TOOLGATE_API_KEY"],
                   model=${quoted(model)})
answer = model.bind_tools([get_weather], tool_choice="any").invoke(${quoted(QUESTION)})
print(answer.tool_calls)`;

const vercel = (url, model) => `import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, tool } from "ai";
import { z } from "zod";

const gateway = createOpenAICompatible({
  name: "toolgate",
  baseURL: ${quoted(`${url}/v1`)},
  apiKey: process.env.TOOLGATE_API_KEY,
  supportsStructuredOutputs: true, // otherwise the schema of a format is not sent
});
const { toolCalls } = await generateText({
  model: gateway(${quoted(model)}),
  prompt: ${quoted(QUESTION)},
  tools: {
    get_weather: tool({ description: "The weather in a city, now",
      inputSchema: z.object({ city: z.string() }) }),
  },
  toolChoice: "required",
});
console.log(toolCalls);`;

const anthropic = (url, model) => `import os
from anthropic import Anthropic

client = Anthropic(base_url=${quoted(url)}, api_key=os.environ["TOOLGATE_API_KEY"])
message = client.messages.create(
    model=${quoted(model)},
    max_tokens=512,
    messages=[{"role": "user", "content": ${quoted(QUESTION)}}],
    tools=[{"name": "get_weather", "input_schema": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}],
    tool_choice={"type": "any"},
)
print(message.content)`;

const agents = (url, model) => `import os
from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)  # traces would go to OpenAI
client = AsyncOpenAI(base_url=${quoted(`${url}/v1`)}, api_key=os.environ["TOOLGATE_API_KEY"])

@function_tool
def get_weather(city: str) -> str:
    """The weather in a city, now"""
    print("get_weather", city)
    return "sunny"

model = OpenAIResponsesModel(${quoted(model)}, openai_client=client)
agent = Agent(name="Weather", model=model, tools=[get_weather])
print(Runner.run_sync(agent, ${quoted(QUESTION)}).final_output)`;

const pydantic = (url, model) => `import os
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url=${quoted(`${url}/v1`)}, api_key=os.environ["TOOLGATE_API_KEY"])
agent = Agent(OpenAIChatModel(${quoted(model)}, provider=provider))

@agent.tool_plain
def get_weather(city: str) -> str:
    """The weather in a city, now"""
    print("get_weather", city)
    return "sunny"

print(agent.run_sync(${quoted(QUESTION)}).output)`;

// As in ../../../launch.py: a smaller context is left to the client.
const MIN_WINDOW = 32_768;

export const windowOf = (shown) =>
  shown?.max_model_len >= MIN_WINDOW ? { tokens: shown.max_model_len, output: shown.max_output_tokens } : null;

const claudeWindow = ({ tokens, output }) => `
export CLAUDE_CODE_MAX_CONTEXT_TOKENS=${tokens}
export CLAUDE_CODE_AUTO_COMPACT_WINDOW=${tokens}
export CLAUDE_CODE_MAX_OUTPUT_TOKENS=${output}`;

const claude = (url, model, window) => `# With Toolgate installed: toolgate launch claude --url ${url} --model ${inShell(model)}
unset ANTHROPIC_API_KEY CLAUDE_CODE_USE_BEDROCK CLAUDE_CODE_USE_VERTEX
export ANTHROPIC_AUTH_TOKEN="$TOOLGATE_API_KEY"
export ANTHROPIC_BASE_URL=${inShell(url)}
export ANTHROPIC_MODEL=${inShell(model)}
export ANTHROPIC_DEFAULT_OPUS_MODEL=${inShell(model)}
export ANTHROPIC_DEFAULT_SONNET_MODEL=${inShell(model)}
export ANTHROPIC_DEFAULT_HAIKU_MODEL=${inShell(model)}
export CLAUDE_CODE_SUBAGENT_MODEL=${inShell(model)}
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1${window ? claudeWindow(window) : ""}
claude`;

function codex(url, model, window) {
  const settings = {
    model,
    model_provider: "toolgate",
    "model_providers.toolgate.name": "Toolgate",
    "model_providers.toolgate.base_url": `${url}/v1`,
    "model_providers.toolgate.env_key": "TOOLGATE_API_KEY",
    "model_providers.toolgate.wire_api": "responses",
  };
  if (window) {
    settings.model_context_window = window.tokens;
    settings.model_auto_compact_token_limit = Math.floor((window.tokens * 3) / 4);
  }
  const flags = Object.entries(settings).map(([name, value]) => `  -c ${inShell(`${name}=${quoted(value)}`)}`);
  return `# With Toolgate installed: toolgate launch codex --url ${url} --model ${inShell(model)}
codex \\
${flags.join(" \\\n")}`;
}

// As in ../../../launch.yaml
const MAX_RESERVE = 20_000;

const launched = (name, url, model, variables, command) =>
  [`# With Toolgate installed: toolgate launch ${name} --url ${url} --model ${inShell(model)}`]
    .concat(Object.entries(variables).map(([variable, value]) => `export ${variable}=${value}`), command)
    .join("\n");

function opencode(url, model, window) {
  const limit = window && {
    context: window.tokens,
    input: Math.floor((window.tokens * 3) / 4) + Math.min(MAX_RESERVE, window.output),
    output: window.output,
  };
  const chosen = `toolgate/${model}`;
  const provider = {
    npm: "@ai-sdk/openai-compatible",
    name: "Toolgate",
    options: { baseURL: `${url}/v1`, apiKey: "{env:TOOLGATE_API_KEY}", supportsStructuredOutputs: true },
    models: { [model]: { name: model, ...(limit ? { limit } : {}) } },
  };
  const content = { model: chosen, small_model: chosen, provider: { toolgate: provider } };
  return launched("opencode", url, model, { OPENCODE_CONFIG_CONTENT: inShell(quoted(content)) }, "opencode");
}

function qwen(url, model) {
  const variables = {
    OPENAI_API_KEY: '"$TOOLGATE_API_KEY"',
    OPENAI_BASE_URL: inShell(`${url}/v1`),
    OPENAI_MODEL: inShell(model),
  };
  return launched("qwen", url, model, variables, "qwen --auth-type openai");
}

function copilot(url, model, window) {
  const variables = {
    COPILOT_PROVIDER_API_KEY: '"$TOOLGATE_API_KEY"',
    COPILOT_PROVIDER_BASE_URL: inShell(`${url}/v1`),
    COPILOT_MODEL: inShell(model),
  };
  if (window) {
    variables.COPILOT_PROVIDER_MAX_PROMPT_TOKENS = window.tokens - window.output;
    variables.COPILOT_PROVIDER_MAX_OUTPUT_TOKENS = window.output;
  }
  return launched("copilot", url, model, variables, "copilot");
}

// By language: how a snippet gets the key instead of the variable.
const IN_PLACE = ['os.environ["TOOLGATE_API_KEY"]', "process.env.TOOLGATE_API_KEY"];

function withKey(snippet, key) {
  if (!key) return snippet;
  for (const variable of IN_PLACE) if (snippet.includes(variable)) return snippet.replace(variable, () => quoted(key));
  return `export TOOLGATE_API_KEY=${inShell(key)}\n${snippet}`;
}

export const snippets = (url, model, window, key) =>
  Object.entries({
    curl,
    "OpenAI SDK (Python)": python,
    "OpenAI SDK (JavaScript)": javascript,
    LangChain: langchain,
    "OpenAI Agents SDK": agents,
    "pydantic-ai": pydantic,
    "Vercel AI SDK": vercel,
    "Anthropic SDK (Python)": anthropic,
    "Claude Code": claude,
    "Codex CLI": codex,
    OpenCode: opencode,
    "Qwen Code": qwen,
    "Copilot CLI": copilot,
  }).map(([title, snippet]) => [title, withKey(snippet(url, model, window), key)]);
