// The detector, with the interface of a server: `detect` answers in the format of `POST /detect`. Each tokenizer has
// its own worker, and the previous one stays until the new one is ready, so an invalid file changes nothing.

/** An error: its code, and a message with the remedy. */
export class Fault extends Error {
  constructor({ code, message, fingerprint }) {
    super(message);
    this.code = code;
    /** The fingerprint of the tokenizer that a key was made for, if it is another one. */
    this.fingerprint = fingerprint ?? null;
  }
}

const ENDED = {
  begin: {
    code: "not_a_tokenizer",
    message: "this is not the tokenizer of a model, which is called tokenizer.json: a part of it is invalid",
  },
  judge: {
    code: "cannot_be_judged",
    message: "this text is too large for the detector in a browser: verdigris detect reads texts of any length",
  },
};

/** A worker that handles one request at a time. */
class Desk {
  #worker;
  #turn = Promise.resolve();

  constructor(script) {
    this.#worker = new Worker(script);
  }

  ask(call, request, transfer = []) {
    const answer = this.#turn.then(
      () =>
        new Promise((resolve, reject) => {
          this.#worker.onmessage = ({ data }) => (data.fault ? reject(new Fault(data.fault)) : resolve(data.done));
          this.#worker.onerror = (event) => {
            event.preventDefault();
            reject(new Fault({ code: "ended", message: event.message }));
          };
          this.#worker.postMessage({ call, ...request }, transfer);
        }),
    );
    this.#turn = answer.catch(() => {});
    return answer;
  }

  end() {
    this.#worker.terminate();
  }
}

export class Detector {
  #script;
  #module;
  #desk = null;
  #tokenizer = null;
  /** The key's file. Only the detector holds its contents. */
  #key = null;
  /** The name of the tokenizer. */
  name = null;
  /** The loaded `tokenizer` and `key`, and the `version`. */
  about = null;

  constructor(script, module) {
    this.#script = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    this.#module = module;
  }

  async #begun(tokenizer) {
    const desk = new Desk(this.#script);
    try {
      return [desk, await desk.ask("begin", { module: this.#module, tokenizer })];
    } catch (error) {
      desk.end();
      throw error.code === "ended" ? new Fault(ENDED.begin) : error;
    }
  }

  /**
   * Loads a tokenizer, compressed or not, and with it a key: by default the current one. If the key was made for
   * another tokenizer, it throws a fault, and there is no key until that tokenizer is loaded again.
   */
  async use(name, tokenizer, key = this.#key) {
    const [desk, about] = await this.#begun(tokenizer);
    this.#desk?.end();
    [this.#desk, this.#tokenizer, this.name, this.about] = [desk, tokenizer, name, about];
    if (key) {
      await this.key(key);
    }
  }

  /** Loads a key file. */
  async key(file) {
    let bytes;
    try {
      bytes = new Uint8Array(await file.slice(0, 1 << 20).arrayBuffer());
    } catch {
      throw new Fault({ code: "not_a_key", message: `the key file ${file.name} cannot be read: is it still there?` });
    }
    // The bytes are transferred with the message: none stay here.
    this.about = await this.#desk.ask("key", { file: bytes }, [bytes.buffer]);
    this.#key = file;
  }

  /** Forgets the key. */
  async forget() {
    this.#key = null;
    this.about = await this.#desk.ask("forget", {});
  }

  /** Judges a text. */
  async detect({ text, ...wanted }) {
    try {
      return await this.#desk.ask("judge", { text, wanted });
    } catch (error) {
      if (error.code !== "ended") {
        throw error;
      }
      // The module has ended: a new one is started with the same tokenizer and key.
      await this.use(this.name, this.#tokenizer);
      throw new Fault(ENDED.judge);
    }
  }
}
