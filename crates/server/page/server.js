// The page's requests to the server. The API key is a variable of this module, and stored nowhere else.

let key = "";

/** Sets the API key for further requests. */
export function use(secret) {
  key = secret.trim();
}

/** An error response. */
export class Refusal extends Error {
  constructor(status, error) {
    super(error?.message ?? `the server answered with status ${status}`);
    this.status = status;
    this.code = error?.code ?? null;
  }
}

async function ask(path, body, signal) {
  const headers = { Accept: "application/json" };
  if (key) {
    headers.Authorization = `Bearer ${key}`;
  }
  const options = { headers, signal, cache: "no-store", credentials: "omit", redirect: "error" };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  }
  const response = await fetch(path, options).catch((error) => {
    throw error instanceof TypeError ? new Error("the server cannot be reached: is it still running?") : error;
  });
  if (response.status === 401) {
    throw new Refusal(401, { message: "this server requires an API key: enter it above", code: "unauthorized" });
  }
  if (!response.ok) {
    const told = await response.json().catch(() => null);
    throw new Refusal(response.status, told?.error);
  }
  return response;
}

/** The name of the model that the page uses, once it is known. */
let model;

/** Information about the server: its model and its keys. */
export async function about() {
  const about = await (await ask("/about")).json();
  model = about.model;
  return about;
}

/** Tests a text; returns the finding, with its tokens if there are not too many. */
export async function detect(request, signal) {
  try {
    return await (await ask("/detect", { model, ...request, course: true, tokens: true }, signal)).json();
  } catch (error) {
    if (error.code !== "too_many_tokens") {
      throw error;
    }
    return (await ask("/detect", { model, ...request, course: true }, signal)).json();
  }
}

/** The pieces of a text as they arrive; the last has the status of its mark. */
export async function* write({ chat, prompt, ...request }, signal) {
  const [path, begins] = chat
    ? ["/v1/chat/completions", { messages: [{ role: "user", content: prompt }] }]
    : ["/v1/completions", { prompt }];
  const response = await ask(path, { ...begins, ...request, stream: true }, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    const lines = (waiting + value).split(/\r?\n/);
    waiting = lines.pop();
    for (const line of lines) {
      const data = line.startsWith("data:") ? line.slice(5).trim() : "";
      if (data === "[DONE]") {
        return;
      }
      if (data) {
        const event = JSON.parse(data);
        if (event.error) {
          throw new Refusal(200, event.error);
        }
        const choice = event.choices?.[0];
        yield { text: choice?.delta?.content ?? choice?.text ?? "", watermark: choice?.watermark ?? null };
      }
    }
  }
}
