// Helpers for forms: submission, errors and announcements.

/** Calls `work` when a form is submitted, also with Ctrl+Enter in a text area. */
export function submits(form, work) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    work();
  });
  // As in other programs, the enter key alone starts a new line.
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.tagName === "TEXTAREA") {
      event.preventDefault();
      work();
    }
  });
}

/** Shows an error on the page; clears it if there is none. */
export function fault(error) {
  document.getElementById("fault").textContent = error ? `${error.message}.` : "";
}

/** Announces words to screen readers. */
export function announce(words) {
  document.getElementById("announce").textContent = words;
}

/** Makes the skip link lead past the forms, to the finding. */
export function skips() {
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.querySelector("#finding .label").focus();
  });
}

/** A text that UTF-8 can encode: unpaired surrogates become U+FFFD. */
function wellFormed(text) {
  return text.toWellFormed?.() ?? text;
}

/** The text to examine; without one, null, and an error is shown. */
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
