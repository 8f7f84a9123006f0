import { by, element } from "./dom.js";

const DEPTH = 4;

const resolved = (schema, models) =>
  schema?.$ref ? { title: schema.$ref.split("/").at(-1), ...models[schema.$ref.split("/").at(-1)] } : (schema ?? {});

function typeOf(schema, models) {
  const found = resolved(schema, models);
  if (found.anyOf) return found.anyOf.map((each) => typeOf(each, models)).join(" or ");
  if (found.enum) return found.enum.map((value) => JSON.stringify(value)).join(", ");
  if (found.const !== undefined) return JSON.stringify(found.const);
  if (found.type === "array" && found.items) return `array of ${typeOf(found.items, models)}`;
  return schema?.$ref ? found.title : (found.type ?? "any");
}

// The members of an object, of the objects in an array, or of the object that may be null.
function objectOf(schema, models) {
  const found = resolved(schema, models);
  if (found.properties) return found;
  if (found.type === "array") return objectOf(found.items, models);
  return found.anyOf?.map((each) => objectOf(each, models)).find((each) => each) ?? null;
}

function members(schema, models, depth = 0) {
  const object = objectOf(schema, models);
  if (!object || depth === DEPTH) return null;
  const required = new Set(object.required ?? []);
  const list = element("dl", { class: "members" });
  for (const [name, member] of Object.entries(object.properties)) {
    const note = required.has(name) ? ", required" : "";
    const term = element("dt", {}, element("code", {}, name), ` ${typeOf(member, models)}${note}`);
    if (member["x-origin"] && member["x-origin"] !== "OpenAI") term.append(element("span", { class: "quiet" }, ` (${member["x-origin"]})`));
    const description = member.description ?? resolved(member, models).description ?? "";
    const detail = element("dd", {}, description);
    const inner = members(member, models, depth + 1);
    if (inner) detail.append(inner);
    list.append(term, detail);
  }
  return list;
}

// Thousands of elements, which are made when they are opened.
function part(title, schema, models) {
  if (!objectOf(schema, models)) return null;
  const made = element("details", {}, element("summary", {}, title));
  made.addEventListener("toggle", () => made.append(members(schema, models)), { once: true });
  return made;
}

function operation(path, method, described, models) {
  const security = described.security.flatMap(Object.keys);
  const access = security.includes("master") ? "master key" : security.length ? "any key" : "no key";
  const body = described.requestBody?.content["application/json"].schema;
  const [[media, response]] = Object.entries(described.responses["200"].content);
  const events = "text/event-stream" in described.responses["200"].content;
  const made = element(
    "article",
    { class: "card" },
    element("h3", {}, element("code", {}, `${method.toUpperCase()} ${path}`)),
    element("p", {}, described.summary),
    element("p", { class: "quiet" }, `${access} · ${media}${events ? " or text/event-stream" : ""}`),
  );
  made.append(
    ...[part("Body", body, models), part("Response", response.schema, models)].filter((each) => each),
  );
  return made;
}

async function draw() {
  const response = await fetch("toolgate/openapi.json", { credentials: "omit" });
  const document_ = await response.json();
  const models = document_.components.schemas;
  for (const tag of document_.tags) {
    by("operations").append(element("h2", {}, tag.name), element("p", {}, tag.description));
    for (const [path, methods] of Object.entries(document_.paths))
      for (const [method, described] of Object.entries(methods))
        if (described.tags.includes(tag.name)) by("operations").append(operation(path, method, described, models));
  }
  by("state").textContent = `${Object.keys(document_.paths).length} paths.`;
}

draw().catch((error) => {
  by("state").className = "error";
  by("state").textContent = `The document could not be loaded: ${error.message}`;
});
