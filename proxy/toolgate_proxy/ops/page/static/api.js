// Requests to this gateway. The key is kept for this tab only, and sent to this gateway only.

const KEY = "toolgate.key";

export const key = () => sessionStorage.getItem(KEY) ?? "";

// The gateway's refusal of the present key. The key is not sent again until one is entered: each
// further request would count as a wrong key of this address.
let refusal = null;

export function setKey(value) {
  refusal = null;
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
  document.dispatchEvent(new Event("toolgate:key"));
}

// The gateway's address, with the path at which a reverse proxy serves it.
export const address = () => new URL(".", location.href).href.replace(/\/$/, "");

export class RequestFailed extends Error {
  constructor(status, error) {
    super(error?.message ?? `The gateway returned status ${status}.`);
    this.status = status;
    this.param = error?.param ?? null;
    this.isOfKey = status === 401 || error?.code === "too_many_wrong_keys";
  }
}

export async function send(path, body, signal) {
  if (refusal) throw refusal;
  const sent = key();
  const headers = { authorization: `Bearer ${sent}` };
  if (body !== undefined) headers["content-type"] = "application/json";
  const response = await fetch(path, {
    method: body === undefined ? "GET" : "POST",
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
    credentials: "omit",
  });
  if (response.ok) return response;
  const shown = await response.json().catch(() => null);
  const failed = new RequestFailed(response.status, shown?.error);
  if (failed.isOfKey && sent === key()) refusal = failed;
  throw failed;
}

export const ask = async (path, body, signal) => (await send(path, body, signal)).json();

// The events of a stream, as JSON.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
      yield JSON.parse(line.slice(6));
    }
  }
}

let known = null;

// By name: a model with its context length, as the gateway shows it.
export const shownModels = new Map();

export async function models() {
  if (!key()) return [];
  known ??= ask("v1/models").then((list) =>
    list.data.map((model) => {
      shownModels.set(model.id, model);
      return model.id;
    }),
  );
  try {
    return await known;
  } catch (error) {
    known = null;
    throw error;
  }
}

document.addEventListener("toolgate:key", () => (known = null));
