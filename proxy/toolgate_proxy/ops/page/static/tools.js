// Tools as people paste them: a list, one tool, the response of MCP's `tools/list`, or one schema.

export class InvalidTools extends Error {}

export function read(text) {
  let given;
  try {
    given = JSON.parse(text);
  } catch (error) {
    throw new InvalidTools(`Not JSON: ${error.message}`);
  }
  const listed = given?.result?.tools ?? given?.tools ?? given;
  const tools = Array.isArray(listed) ? listed : [listed];
  if (!tools.every((tool) => tool !== null && typeof tool === "object" && !Array.isArray(tool)))
    throw new InvalidTools("Expected a tool, a list of tools, or a JSON Schema.");
  return tools.map(asTool);
}

// A schema alone becomes the parameters of a function.
function asTool(entry) {
  const named = ["name", "function", "custom"].some((field) => field in entry);
  return named ? entry : { name: "schema", parameters: entry };
}
