// One detector in its own thread, so that the page stays responsive. One script contains the module's bindings (which
// define `wasm_bindgen`) and then this code. It handles one message after the other.

let detector = null;

async function unpacked(bytes) {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) {
    return bytes;
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const CALLS = {
  async begin({ module, tokenizer }) {
    wasm_bindgen.initSync({ module });
    let json;
    try {
      json = await unpacked(tokenizer);
    } catch {
      const message = "this file is damaged: it cannot be decompressed; download it again";
      throw JSON.stringify({ code: "not_a_tokenizer", message });
    }
    detector = new wasm_bindgen.Detector(json);
    return JSON.parse(detector.about());
  },
  key({ file }) {
    try {
      detector.take_key(file);
    } finally {
      file.fill(0);
    }
    return JSON.parse(detector.about());
  },
  forget() {
    detector.drop_key();
    return JSON.parse(detector.about());
  },
  judge({ text, wanted }) {
    return JSON.parse(detector.judge(text, JSON.stringify(wanted)));
  },
};

/** The thrown error with its code. Anything but a string is a trap of the module, which has then ended. */
function fault(error) {
  if (typeof error === "string") {
    return JSON.parse(error);
  }
  return { code: "ended", message: String(error?.message ?? error) };
}

self.onmessage = async ({ data: { call, ...request } }) => {
  try {
    self.postMessage({ done: await CALLS[call](request) });
  } catch (error) {
    self.postMessage({ fault: fault(error) });
  }
};
