import { ask, key } from "./api.js";
import { by, element, later } from "./dom.js";
import { read } from "./tools.js";

const EXAMPLE = [
  {
    name: "book_table",
    description: "Book a table in a restaurant",
    input_schema: {
      type: "object",
      properties: {
        restaurant: { type: "string", minLength: 1 },
        due: { type: "string", format: "date-time" },
        guests: { type: "integer", minimum: 1, maximum: 12 },
        tags: { type: "array", items: { type: "string" }, uniqueItems: true },
      },
      required: ["restaurant", "due", "guests"],
      additionalProperties: false,
    },
  },
];
const MEANINGS = {
  masked: "masks enforce the whole schema",
  checked: "some keywords are validated before a call is sent",
  refused: "requests with this tool are refused",
  invalid: "not a valid tool",
  failed: "the backend could not report",
};
let asked = null;
let started = false;

export function show() {
  if (!started) {
    started = true;
    by("schema-tools").value = JSON.stringify(EXAMPLE, null, 2);
    by("schema-tools").addEventListener("input", later(update, 350));
    by("schema-model").addEventListener("change", update);
  }
  update();
}

async function update() {
  const state = by("schema-state");
  const say = (text, bad = false) => {
    state.textContent = text;
    state.className = bad ? "error" : "quiet";
  };
  asked?.abort();
  const none = (reason, bad) => {
    by("schema-report").replaceChildren(); // that of other tools
    say(reason, bad);
  };
  if (!key()) return none("Enter the master key to get reports.");
  let body;
  try {
    body = { tools: read(by("schema-tools").value), ...chosenModel() };
  } catch (error) {
    return none(error.message, true);
  }
  const abort = (asked = new AbortController());
  state.textContent = "Checking …";
  try {
    const report = await ask("toolgate/schema", body, abort.signal);
    say(`${report.backends.length} backend${report.backends.length === 1 ? "" : "s"} reported.`);
    by("schema-report").replaceChildren(...report.backends.flatMap((backend) => backend.tools.map(card)));
  } catch (error) {
    if (abort.signal.aborted) return;
    none(error.status === 403 ? "The schema report needs the master key." : error.message, true);
  }
}

function chosenModel() {
  const model = by("schema-model").value;
  return model ? { model } : {};
}

function card(tool) {
  const good = tool.status === "masked" ? "masked" : tool.status === "checked" ? "checked" : "refused";
  const made = element(
    "div",
    { class: "card" },
    element("h2", {}, tool.name),
    element("p", {}, element("span", { class: `state ${good}-state` }, tool.status), ` – ${MEANINGS[tool.status] ?? ""}`),
  );
  const facts = [];
  const ready = tool.status === "masked" || tool.status === "checked";
  // Of a tool that can be used, the reason is that for its engine.
  if (tool.engine) facts.push(`engine ${tool.engine}${ready && tool.reason ? ` (${tool.reason})` : ""}`);
  if (tool.compile_ms !== undefined) facts.push(`compiled in ${tool.compile_ms.toFixed(1)} ms`);
  if (facts.length) made.append(element("p", { class: "quiet" }, facts.join(", ")));
  if (tool.reason && !ready) made.append(element("p", { class: "error" }, tool.reason));
  if (tool.pointer) made.append(element("p", {}, "At ", element("code", {}, tool.pointer)));
  for (const residual of tool.residual) {
    made.append(
      element("h3", {}, element("code", {}, residual.keyword), " at ", element("code", {}, residual.pointer || "/")),
      element("p", {}, `${residual.why} ${residual.rewrite}`),
    );
  }
  return made;
}
