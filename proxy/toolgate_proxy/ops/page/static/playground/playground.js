import { ask, events, key, send } from "../api.js";
import { by, element } from "../dom.js";
import { Message } from "./message.js";
import { Track } from "./track.js";

// Without enforcement the demo model copies "HIGH", which the enum does not allow.
const QUESTION = "Open ticket WEB-2143 with HIGH priority";
const TOOLS = [
  {
    name: "open_ticket",
    description: "Open a ticket",
    inputSchema: {
      type: "object",
      properties: {
        code: { type: "string", pattern: "^[A-Z]{2,4}-[0-9]{3,5}$" },
        priority: { type: "string", enum: ["low", "medium", "high"] },
      },
      required: ["code"],
      additionalProperties: false,
    },
  },
];
let started = false;
let running = null;

export function show() {
  if (started) return;
  started = true;
  by("play-messages").value = QUESTION;
  by("play-tools").value = JSON.stringify(TOOLS, null, 2);
  by("play-form").addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  by("play-stop").addEventListener("click", () => running?.abort());
}

async function run() {
  running?.abort();
  const abort = (running = new AbortController());
  const say = (text, bad = false) => {
    by("play-state").textContent = text;
    by("play-state").className = bad ? "error" : "quiet";
  };
  if (!key()) return say("Enter an API key first.", true);
  busy(true);
  by("play-results").hidden = true; // those of the previous request
  try {
    const body = await request(abort.signal);
    by("play-results").hidden = false;
    if (matchMedia("(max-width: 40rem)").matches) by("play-results").scrollIntoView();
    say("Running …");
    const compare = by("play-compare").checked;
    by("play-alone").hidden = !compare;
    by("play-grammars").replaceChildren();
    const parts = [enforced(body, abort.signal), grammars(body, abort.signal)];
    if (compare) parts.push(alone(body, abort.signal));
    const failed = (await Promise.allSettled(parts)).find((part) => part.status === "rejected");
    if (failed) throw failed.reason;
    say("Done.");
  } catch (error) {
    say(abort.signal.aborted ? "Stopped." : error.message, !abort.signal.aborted);
  } finally {
    if (running === abort) busy(false);
  }
}

function busy(now) {
  by("play-run").disabled = now;
  by("play-stop").disabled = !now;
}

async function request(signal) {
  const body = {
    model: by("play-model").value,
    messages: messages(by("play-messages").value.trim()),
    temperature: Number(by("play-temperature").value),
    max_tokens: Number(by("play-max").value),
    ...json("play-extra", "Further parameters"),
  };
  if (by("play-seed").value) body.seed = Number(by("play-seed").value);
  if (by("play-reasoning").value) body.reasoning_effort = by("play-reasoning").value;
  const pasted = json("play-tools", "Tools");
  if (pasted && (!Array.isArray(pasted) || pasted.length)) {
    body.tools = await chatTools(pasted, signal);
    body.tool_choice = by("play-choice").value;
  }
  return body;
}

// Only the master key may have tools converted. Other keys send those of chat completions.
async function chatTools(pasted, signal) {
  try {
    return (await ask("toolgate/tools", { tools: pasted }, signal)).tools;
  } catch (error) {
    if (error.status !== 403) throw error;
    return Array.isArray(pasted) ? pasted : (pasted.tools ?? [pasted]);
  }
}

function messages(written) {
  if (written.startsWith("[")) return JSON.parse(written);
  return [{ role: "user", content: written }];
}

function json(id, name) {
  const text = by(id).value.trim();
  if (!text) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${name}: ${error.message}`);
  }
}

async function enforced(body, signal) {
  const message = new Message(by("play-message"));
  const track = new Track();
  by("play-facts").textContent = "";
  const options = { include_usage: true };
  if (by("play-trace").checked) options.toolgate_trace = true;
  const response = await send("v1/chat/completions", { ...body, stream: true, stream_options: options }, signal);
  facts(response.headers);
  for await (const chunk of events(response)) {
    if (chunk.error) throw new Error(chunk.error.message);
    for (const choice of chunk.choices) {
      if (choice.toolgate?.trace) track.add(choice.toolgate.trace);
      message.add(choice);
    }
  }
  message.end();
}

function facts(headers) {
  const named = {
    "x-toolgate-enforced": "enforced",
    "x-toolgate-grammar": "grammars",
    "x-toolgate-residual": "checked",
    "x-toolgate-resamples": "sampled again",
  };
  const found = Object.entries(named)
    .filter(([header]) => headers.has(header))
    .map(([header, name]) => `${name}: ${headers.get(header)}`);
  by("play-facts").textContent = found.join(" · ");
}

// The report of the schema inspector, in short.
async function grammars(body, signal) {
  if (!body.tools) return by("play-grammars").replaceChildren(element("p", { class: "quiet" }, "No tools."));
  let report;
  try {
    report = await ask("toolgate/schema", { tools: body.tools, model: body.model }, signal);
  } catch (error) {
    if (error.status !== 403) throw error;
    return by("play-grammars").replaceChildren(element("p", { class: "quiet" }, "The report needs the master key."));
  }
  const made = report.backends.slice(0, 1).flatMap((backend) =>
    backend.tools.map((tool) => {
      const residual = tool.residual.map((each) => `${each.keyword} at ${each.pointer}`).join(", ");
      const reason = tool.engine && tool.reason ? ` (${tool.reason})` : "";
      const parts = [tool.engine ? `engine ${tool.engine}${reason}` : tool.reason];
      parts.push(residual ? `checked: ${residual}; all other keywords are masked` : tool.status === "masked" && "all keywords are masked");
      return element("li", {}, element("code", {}, tool.name), ` ${parts.filter((part) => part).join("; ")}`);
    }),
  );
  by("play-grammars").replaceChildren(element("ul", {}, ...made));
}

async function alone(body, signal) {
  const raw = by("play-raw");
  const verdict = by("play-verdict");
  raw.replaceChildren();
  by("play-breaks").replaceChildren();
  verdict.textContent = "";
  let response;
  try {
    response = await send("toolgate/unconstrained", body, signal);
  } catch (error) {
    if (error.status !== 403) throw error;
    verdict.textContent = "The comparison needs the master key.";
    return;
  }
  for await (const event of events(response)) {
    if (event.error) throw new Error(event.error.message);
    if (event.text) raw.append(event.text);
    if (event.judgement) judged(raw, verdict, event.judgement);
  }
}

function judged(raw, verdict, judgement) {
  const text = raw.textContent;
  const cut = judgement.cut ? " It was cut by max_tokens." : "";
  verdict.className = `state ${judgement.breaks.length ? "refused" : "masked"}-state`;
  verdict.textContent = judgement.breaks.length
    ? `✕ Broken in ${judgement.breaks.length} place${judgement.breaks.length === 1 ? "" : "s"}.${cut}`
    : `✓ Nothing is broken: ${judgement.calls} call${judgement.calls === 1 ? "" : "s"}.${cut}`;
  const pieces = [];
  let at = 0;
  for (const each of judgement.breaks.toSorted((a, b) => a.begin - b.begin)) {
    if (each.begin < at) continue;
    pieces.push(text.slice(at, each.begin));
    pieces.push(element("mark", { class: "broken", title: each.message }, text.slice(each.begin, each.end) || "␣"));
    at = each.end;
  }
  pieces.push(text.slice(at));
  raw.replaceChildren(...pieces);
  by("play-breaks").replaceChildren(...judgement.breaks.map((each) => element("li", { class: "error" }, each.message)));
}
