// The detector, asked as a server is: `detect` answers in the shape of `POST /detect`. Each tokenizer has a worker of
// its own, and the one before stays until the new one is ready: a file that is no tokenizer takes nothing away.

/** Something that cannot be done: its name, and what to do about it. */
export class Fault extends Error {
  constructor({ code, message, fingerprint }) {
    super(message);
    this.code = code;
    /** Of the tokenizer that a key of another one was made for. */
    this.fingerprint = fingerprint ?? null;
  }
}

const ENDED = {
  begin: {
    code: "not_a_tokenizer",
    message: "this is not the tokenizer of a model, which is called tokenizer.json: a part of it is not as it must be",
  },
  judge: {
    code: "cannot_be_judged",
    message: "this text is too much for the detector in a browser: verdigris detect reads texts of any length",
  },
};

/** A worker that does one thing after the other. */
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
  /** The file that the key is in. Its contents are held by the detector alone. */
  #key = null;
  /** What the tokenizer is called. */
  name = null;
  /** What is at hand: `tokenizer`, `key` and `version`. */
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
   * Takes a tokenizer, packed or not, and with it a key: the one that is there unless another is given. Where the key
   * does not go with it that is a fault, and there is no key until the tokenizer that it goes with is back.
   */
  async use(name, tokenizer, key = this.#key) {
    const [desk, about] = await this.#begun(tokenizer);
    this.#desk?.end();
    [this.#desk, this.#tokenizer, this.name, this.about] = [desk, tokenizer, name, about];
    if (key) {
      await this.key(key);
    }
  }

  /** Takes a key file. */
  async key(file) {
    let bytes;
    try {
      bytes = new Uint8Array(await file.slice(0, 1 << 20).arrayBuffer());
    } catch {
      throw new Fault({ code: "not_a_key", message: `the key file ${file.name} cannot be read: is it still there?` });
    }
    // The bytes go with the message: none stay here.
    this.about = await this.#desk.ask("key", { file: bytes }, [bytes.buffer]);
    this.#key = file;
  }

  /** Forgets the key. */
  async forget() {
    this.#key = null;
    this.about = await this.#desk.ask("forget", {});
  }

  /** What a text is. */
  async detect({ text, ...wanted }) {
    try {
      return await this.#desk.ask("judge", { text, wanted });
    } catch (error) {
      if (error.code !== "ended") {
        throw error;
      }
      // The module is at an end: a new one takes its place, with the same tokenizer and key.
      await this.use(this.name, this.#tokenizer);
      throw new Fault(ENDED.judge);
    }
  }
}
