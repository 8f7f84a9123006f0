// The Vercel AI SDK: generateText, streamText, generateObject, a loop of two turns. With the argument
// `responses`, by its default provider for OpenAI, on the Responses API. With `open-responses`, by
// its provider for the Open Responses specification. With `messages`, by its provider for Anthropic.
// The cases run at once.

import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenResponses } from "@ai-sdk/open-responses";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const body = { logit_bias: JSON.parse(process.env.GATEWAY_BIAS), reasoning_budget: 20 };
const where = { baseURL: `${process.env.GATEWAY_URL}/v1`, apiKey: process.env.GATEWAY_KEY };
const responses = process.argv.includes("responses");
const messages = process.argv.includes("messages");
const openResponses = process.argv.includes("open-responses");
const chat = createOpenAICompatible({
  ...where,
  name: "gateway",
  supportsStructuredOutputs: true,
  transformRequestBody: (sent) => ({ ...sent, ...body }),
});
const adding = (url, { body: text, ...rest }) => {
  const sent = { ...JSON.parse(text), ...body, seed: 5 };
  // With thinking, the provider for Anthropic forces no calls, because Anthropic's API does not.
  if (sent.thinking && sent.tools.length === 1)
    sent.tool_choice = { type: "tool", name: sent.tools[0].name };
  return fetch(url, { ...rest, body: JSON.stringify(sent) });
};
const openai = createOpenAI({ ...where, fetch: adding });
const open = createOpenResponses({
  name: "gateway",
  url: `${where.baseURL}/responses`,
  apiKey: where.apiKey,
  fetch: adding,
});
const anthropic = createAnthropic({ ...where, fetch: adding });
const provider = responses ? openai : openResponses ? open : messages ? anthropic : chat;
const model = provider("tiny");
const weather = z.object({ city: z.string(), unit: z.enum(["celsius", "fahrenheit"]).optional() });
const tools = {
  get_weather: tool({ description: "weather", inputSchema: weather }),
  set_tags: tool({
    description: "tags",
    inputSchema: jsonSchema({
      type: "object",
      properties: { tags: { type: "array", items: { type: "string" }, minItems: 2, maxItems: 2 } },
      required: ["tags"],
      additionalProperties: false,
    }),
  }),
};
const asked = {
  model,
  prompt: "What's the weather in Beijing and Shanghai?",
  maxOutputTokens: 800,
  maxRetries: 0,
  ...(provider === chat ? { seed: 5 } : {}), // the other providers have no seed
};
const named = { type: "tool", toolName: "set_tags" };

function check(calls, reason, choice) {
  if (reason === "length") return;
  assert(calls.length > 0 || choice === "auto" || choice === "none");
  assert(choice !== "none" || calls.length === 0);
  for (const call of calls) {
    assert(!call.invalid, JSON.stringify(call));
    if (call.toolName === "get_weather") weather.parse(call.input);
    else assert.equal(call.input.tags.length, 2);
  }
}

async function choose(toolChoice, options = {}) {
  const whole = await generateText({ ...asked, ...options, tools, toolChoice });
  check(whole.toolCalls, whole.finishReason, toolChoice);
  const stream = streamText({ ...asked, ...options, tools, toolChoice });
  await stream.consumeStream();
  check(await stream.toolCalls, await stream.finishReason, toolChoice);
  console.log("checked:", JSON.stringify([toolChoice, options]), "generateText and streamText");
  return [whole, { toolCalls: await stream.toolCalls, reasoningText: await stream.reasoningText }];
}

async function generate() {
  const { object } = await generateObject({ ...asked, schema: weather });
  weather.parse(object);
  console.log("checked: generateObject");
}

async function loop(options = {}) {
  const acting = {
    ...tools,
    set_tags: { ...tools.set_tags, execute: async () => "done" },
  };
  let turns = 0;
  const result = await generateText({
    ...asked,
    ...options,
    tools: acting,
    stopWhen: stepCountIs(2),
    prepareStep: ({ stepNumber }) => {
      turns += 1;
      return stepNumber === 0 ? { toolChoice: named } : { toolChoice: "none" };
    },
  });
  assert(result.steps[0].finishReason === "length" || turns === 2);
  console.log("checked: a loop of two turns", JSON.stringify(options));
}

function anthropicOptions() {
  const thinking = { anthropic: { thinking: { type: "enabled", budgetTokens: 1024 } } };
  const one = { anthropic: { disableParallelToolUse: true } };
  return [
    loop({ providerOptions: thinking }),
    choose("auto", { providerOptions: thinking }).then((answers) =>
      answers.forEach(({ reasoningText }) => assert(reasoningText.length > 0)),
    ),
    choose("required", { providerOptions: one }).then((answers) =>
      answers.forEach(({ toolCalls }) => assert(toolCalls.length <= 1)),
    ),
  ];
}

const loops = [loop()];
if (responses) {
  const openai = { store: false, include: ["reasoning.encrypted_content"] };
  loops.push(loop({ providerOptions: { openai } }));
}
if (messages) loops.push(...anthropicOptions());
const choices = ["auto", "required", "none", named].map((choice) => choose(choice));
await Promise.all([...choices, generate(), ...loops]);
