// The Anthropic SDK for JavaScript: create, stream, finalMessage, parse, countTokens, toolRunner, a
// loop of two turns with thinking. The cases run at once.

import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";

const client = new Anthropic({
  baseURL: process.env.GATEWAY_URL,
  apiKey: process.env.GATEWAY_KEY,
  maxRetries: 0,
});
const weather = z.object({ city: z.string(), unit: z.enum(["celsius", "fahrenheit"]) });
const tags = z.object({ tags: z.array(z.string()).min(2).max(2) });
const schemas = { get_weather: weather, set_tags: tags };
const tools = Object.entries(schemas).map(([name, schema]) => ({
  name,
  description: name,
  input_schema: z.toJSONSchema(schema),
}));
const prompt = {
  model: "tiny",
  messages: [{ role: "user", content: "What's the weather in Beijing and Shanghai?" }],
};
const asked = {
  ...prompt,
  max_tokens: 800,
  seed: 5,
  logit_bias: JSON.parse(process.env.GATEWAY_BIAS),
  reasoning_budget: 20,
};
const any = { type: "any" };
const named = { type: "tool", name: "set_tags" };
const one = { type: "any", disable_parallel_tool_use: true };
const thinking = { type: "enabled", budget_tokens: 1024 };

function check(message, choice) {
  const calls = message.content.filter((block) => block.type === "tool_use");
  const cut = message.stop_reason === "max_tokens";
  for (const call of calls) schemas[call.name].parse(call.input);
  assert(calls.length > 0 || cut || ["auto", "none"].includes(choice.type));
  assert(calls.length === 0 || choice.type !== "none");
  assert(calls.length <= 1 || !choice.disable_parallel_tool_use);
  assert(cut || (message.stop_reason === "tool_use") === calls.length > 0);
  for (const block of message.content) assert(block.type !== "thinking" || block.signature);
  return calls;
}

async function choose(choice, more = {}) {
  const body = { ...asked, tools, tool_choice: choice, ...more };
  check(await client.messages.create(body), choice);
  const stream = client.messages.stream(body);
  const seen = [];
  stream.on("contentBlock", (block) => seen.push(block.type));
  const final = await stream.finalMessage();
  check(final, choice);
  assert.deepEqual(seen, final.content.map((block) => block.type));
  let last;
  for await (const event of await client.messages.create({ ...body, stream: true })) last = event;
  assert.equal(last.type, "message_stop");
  console.log("checked:", JSON.stringify(choice), JSON.stringify(more), "create and stream");
}

async function cut() {
  let seen = 0;
  for (const max_tokens of [40, 60, 80, 100]) {
    const body = { ...asked, tools, tool_choice: any, max_tokens };
    const final = await client.messages.stream(body).finalMessage();
    check(final, any);
    seen += final.stop_reason === "max_tokens";
  }
  assert(seen > 0);
  console.log("checked: calls cut by max_tokens");
}

async function parse() {
  const output_config = { format: zodOutputFormat(weather) };
  weather.parse((await client.messages.parse({ ...asked, output_config })).parsed_output);
  console.log("checked: parse");
}

async function count() {
  const body = { ...prompt, tools, tool_choice: any };
  const { input_tokens: counted } = await client.messages.countTokens(body);
  const { usage } = await client.messages.create({ ...asked, ...body });
  assert.equal(usage.input_tokens + usage.cache_read_input_tokens, counted);
  console.log("checked: countTokens");
}

async function loop() {
  const body = { ...asked, tools, max_tokens: 2048, thinking };
  const first = await client.messages.create({ ...body, tool_choice: named });
  const results = check(first, named).map((call) => ({
    type: "tool_result",
    tool_use_id: call.id,
    content: [{ type: "text", text: "done" }],
  }));
  const messages = [
    ...prompt.messages,
    { role: "assistant", content: first.content },
    { role: "user", content: results.length ? results : "And now?" },
  ];
  check(await client.messages.create({ ...body, messages }), { type: "auto" });
  console.log("checked: a loop of two turns, with thinking");
}

async function runTools(stream) {
  const ran = [];
  const acting = Object.entries(schemas).map(([name, inputSchema]) =>
    betaZodTool({ name, description: name, inputSchema, run: () => (ran.push(name), "done") }),
  );
  const runner = client.beta.messages.toolRunner({
    ...asked,
    tools: acting,
    tool_choice: any,
    max_iterations: 2,
    stream,
  });
  const turns = [];
  for await (const turn of runner) turns.push(stream ? await turn.finalMessage() : turn);
  const [calls] = turns.map((turn) => check(turn, any));
  if (turns[0].stop_reason !== "max_tokens") {
    assert.equal(turns.length, 2);
    assert.deepEqual(ran.slice(0, calls.length), calls.map((call) => call.name));
  }
  console.log("checked: toolRunner", stream);
}

async function refused() {
  const wrong = client.messages.create({ ...asked, tools: [{ type: "unheard_of", name: "a" }] });
  await assert.rejects(
    wrong,
    (error) => error instanceof Anthropic.BadRequestError && error.requestID?.length > 0,
  );
  await assert.rejects(
    client.messages.create({ ...asked, model: "unheard-of" }),
    (error) => error instanceof Anthropic.NotFoundError,
  );
  console.log("checked: errors");
}

await Promise.all([
  ...[{ type: "auto" }, any, { type: "none" }, named, one].map((choice) => choose(choice)),
  choose(any, { thinking, max_tokens: 2048 }),
  choose({ type: "auto" }, { thinking: { type: "adaptive" } }),
  cut(),
  parse(),
  count(),
  loop(),
  runTools(false),
  runTools(true),
  refused(),
]);
