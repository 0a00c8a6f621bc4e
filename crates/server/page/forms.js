// What forms do: send, and one thing at a time.

/** Does `work` when a form is sent, with the enter key too. */
export function submits(form, work) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    work();
  });
  // As in other programs: a line of its own is what the enter key alone makes.
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.tagName === "TEXTAREA") {
      event.preventDefault();
      work();
    }
  });
}

/** Shows what went wrong where that stands on the page; nothing, where nothing did. */
export function fault(error) {
  document.getElementById("fault").textContent = error ? `${error.message}.` : "";
}

/** Says something to those who listen. */
export function announce(words) {
  document.getElementById("announce").textContent = words;
}

/** Leads past what is asked, to the finding. */
export function skips() {
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.querySelector("#finding .label").focus();
  });
}

/** A text as bytes can have it: halves of characters become U+FFFD. */
function wellFormed(text) {
  return text.toWellFormed?.() ?? text;
}

/** The text that is to be examined; without one, null, and what to do is said. */
export function textToExamine() {
  const area = document.getElementById("text");
  const text = wellFormed(area.value);
  if (text.trim() !== "") {
    return text;
  }
  fault({ message: "There is no text yet: paste one, or open a file" });
  area.focus();
  return null;
}
