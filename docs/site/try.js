// The page "Try the detector": hands the example to the detector in the frame, as a visitor would.

const buttons = [...document.querySelectorAll(".try button")];
const frame = document.querySelector("iframe.detector");

/** Waits until a condition on the detector's page holds. */
async function until(holds) {
  const end = Date.now() + 60_000;
  while (!frame.contentDocument || !holds(frame.contentDocument)) {
    if (Date.now() > end) {
      throw new Error("the detector does not respond: it needs a web server and a browser with WebAssembly");
    }
    await new Promise((done) => setTimeout(done, 50));
  }
  return frame.contentDocument;
}

async function fetched(name) {
  const response = await fetch(name);
  if (!response.ok) {
    throw new Error(`${name} is missing`);
  }
  return response.blob();
}

async function show(name) {
  const [key, text] = await Promise.all([fetched("example.key"), fetched(name)]);
  let detector = await until((page) => page.documentElement.dataset.ready === "yes");
  const files = new DataTransfer();
  files.items.add(new File([key], "example.key"));
  const field = detector.querySelector("#key-file");
  field.files = files.files;
  field.dispatchEvent(new Event("change", { bubbles: true }));
  detector = await until((page) => !page.querySelector("#key-forget").hidden);
  detector.querySelector("#text").value = await text.text();
  detector.querySelector("button[type=submit]").click();
}

/** Makes the frame as tall as the detector's page, so that it needs no scroll bar of its own. */
function fit() {
  const { body } = frame.contentDocument;
  new ResizeObserver(() => (frame.style.height = `${body.offsetHeight + 2}px`)).observe(body);
}

if (frame) {
  frame.addEventListener("load", fit);
  if (frame.contentDocument?.readyState === "complete") {
    fit();
  }
}

for (const button of buttons) {
  const status = button.parentElement.querySelector("[role=status]");
  button.addEventListener("click", async () => {
    status.textContent = "";
    buttons.forEach((each) => (each.disabled = true));
    try {
      await show(button.dataset.text);
    } catch (error) {
      status.textContent = error.message;
    } finally {
      buttons.forEach((each) => (each.disabled = false));
    }
  });
}
