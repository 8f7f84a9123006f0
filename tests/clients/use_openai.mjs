// The OpenAI SDK for JavaScript, Responses API: create, stream, parse, a loop of two turns by items
// and by stored responses.

import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponsesFunction, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const client = new OpenAI({
  baseURL: `${process.env.GATEWAY_URL}/v1`,
  apiKey: process.env.GATEWAY_KEY,
  maxRetries: 0,
});
const weather = z.object({ city: z.string(), unit: z.enum(["celsius", "fahrenheit"]) });
const tags = z.object({ tags: z.array(z.string()).min(2).max(2) });
const schemas = { get_weather: weather, set_tags: tags };
const tools = Object.entries(schemas).map(([name, parameters]) =>
  zodResponsesFunction({ name, description: name, parameters }),
);
const asked = {
  model: "tiny",
  input: "What's the weather in Beijing and Shanghai?",
  max_output_tokens: 800,
  store: false,
  seed: 5,
  logit_bias: JSON.parse(process.env.GATEWAY_BIAS),
  reasoning_budget: 20,
};
const named = { type: "function", name: "set_tags" };

function check(response, choice) {
  const calls = response.output.filter((item) => item.type === "function_call");
  if (response.status !== "completed") return calls;
  assert(calls.length > 0 || choice === "auto" || choice === "none");
  assert(choice !== "none" || calls.length === 0);
  for (const call of calls) schemas[call.name].parse(JSON.parse(call.arguments));
  return calls;
}

async function choose(choice) {
  const body = { ...asked, tools, tool_choice: choice };
  check(await client.responses.create(body), choice);
  const stream = client.responses.stream(body);
  let number = 0;
  for await (const event of stream) assert.equal(event.sequence_number, number++);
  check(await stream.finalResponse(), choice);
  const raw = await client.responses.create({ ...body, stream: true });
  let last;
  for await (const event of raw) last = event;
  assert(["response.completed", "response.incomplete"].includes(last.type));
  check(last.response, choice);
  console.log("checked:", JSON.stringify(choice), "create and stream");
}

async function parse() {
  const text = { format: zodTextFormat(weather, "weather") };
  const content = await client.responses.parse({ ...asked, text });
  weather.parse(content.output_parsed);
  const called = await client.responses.parse({ ...asked, tools, tool_choice: "required" });
  const call = called.output.find((item) => item.type === "function_call");
  if (called.status === "completed") schemas[call.name].parse(call.parsed_arguments);
  console.log("checked: parse of content and of calls");
}

async function loop() {
  const first = await client.responses.create({ ...asked, tools, tool_choice: named });
  const results = check(first, named).map((call) => ({
    type: "function_call_output",
    call_id: call.call_id,
    output: "done",
  }));
  const input = [{ role: "user", content: asked.input }, ...first.output, ...results];
  const second = await client.responses.create({ ...asked, input, tools, tool_choice: "none" });
  assert.equal(typeof second.output_text, "string");
  console.log("checked: a loop of two turns");
}

async function stored() {
  const body = { ...asked, store: true, tools };
  const first = await client.responses.create({ ...body, tool_choice: named });
  const results = check(first, named).map((call) => ({
    type: "function_call_output",
    call_id: call.call_id,
    output: "done",
  }));
  const input = results.length ? results : "And now?";
  const second = await client.responses.create({
    ...body,
    input,
    tool_choice: "none",
    previous_response_id: first.id,
  });
  assert.deepEqual((await client.responses.retrieve(second.id)).output, second.output);
  const items = [];
  for await (const item of client.responses.inputItems.list(second.id, { order: "asc", limit: 1 }))
    items.push(item.type);
  assert.equal(items[0], "message");
  for (const { id } of [first, second]) await client.responses.delete(id);
  await assert.rejects(client.responses.retrieve(first.id), (error) => error.status === 404);
  console.log("checked: stored responses: continued, retrieved, listed, deleted");
}

async function refused() {
  const wrong = client.responses.create({ ...asked, tools: [{ type: "unheard_of" }] });
  await assert.rejects(wrong, (error) => error.status === 400 && error.param.startsWith("tools[0]"));
  console.log("checked: errors");
}

await Promise.all([...["auto", "required", "none", named].map(choose), parse(), loop(), stored(), refused()]);
