// The Vercel AI SDK with tools that the gateway runs, MCP and web search, on the Responses API and,
// with the argument `messages`, on the Messages API. The answers are scripted.

import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText } from "ai";

const messages = process.argv.includes("messages");
const script = JSON.parse(process.env.HOSTED_TOOLS);
const where = { baseURL: `${process.env.GATEWAY_URL}/v1`, apiKey: process.env.GATEWAY_KEY };
const provider = messages ? createAnthropic(where) : createOpenAI(where);
const asked = [{ role: "user", content: "Which is it?" }];
const server = { type: "url", name: "shop", url: script.mcp };
const mcp = messages
  ? { providerOptions: { anthropic: { mcpServers: [server] } } }
  : {
      tools: {
        mcp: provider.tools.mcp({
          serverLabel: "shop",
          serverUrl: script.mcp,
          requireApproval: "never",
        }),
      },
    };
const search = messages
  ? { tools: { web_search: provider.tools.webSearch_20250305() } }
  : { tools: { web_search: provider.tools.webSearch() } };

async function answer(options, streamed) {
  const sent = { model: provider("tiny"), maxRetries: 0, messages: asked, ...options };
  if (!streamed) return generateText(sent);
  const stream = streamText({ ...sent, onError: () => {} });
  await stream.consumeStream();
  const [text, toolCalls, toolResults, sources, response] = await Promise.all([
    stream.text,
    stream.toolCalls,
    stream.toolResults,
    stream.sources,
    stream.response,
  ]);
  return { text, toolCalls, toolResults, sources, response };
}

async function both(what, options, expected, check) {
  for (const streamed of [false, true]) {
    const found = await answer(options, streamed);
    assert.equal(found.text, expected);
    assert.equal(found.toolCalls.length, 1);
    assert(found.toolCalls[0].providerExecuted);
    check(found);
    const history = [...asked, ...found.response.messages, { role: "user", content: "And?" }];
    const more = await answer({ ...options, messages: history }, streamed);
    assert.equal(more.text, script.last);
  }
  console.log("checked:", what);
}

await both("MCP", mcp, script.found, ({ toolResults }) => {
  assert.equal(toolResults.length, 1);
  assert(JSON.stringify(toolResults[0].output).includes(script.record));
});
await both("web search", search, script.cited, ({ toolResults, sources }) => {
  assert(JSON.stringify(toolResults[0].output).includes(script.page));
  assert(sources.some(({ url }) => url === script.page));
});
