// Files that are chosen or dropped, and the texts in them.

/** A file that cannot be used; the message says what is wrong with it, and what to do. */
export class BadFile extends Error {}

/** Passes files that are dropped on an element or chosen with a field to `take`. */
export function takes(area, field, take) {
  field.addEventListener("change", () => {
    const [file] = field.files;
    // So that choosing the same file again is a change, too.
    field.value = "";
    if (file) {
      take(file);
    }
  });
  const over = (event) => {
    if (event.dataTransfer?.types.includes("Files")) {
      event.preventDefault();
      area.classList.toggle("over", event.type !== "dragleave");
    }
  };
  ["dragenter", "dragover", "dragleave"].forEach((type) => area.addEventListener(type, over));
  area.addEventListener("drop", (event) => {
    area.classList.remove("over");
    const [file] = event.dataTransfer?.files ?? [];
    if (file) {
      event.preventDefault();
      take(file);
    }
  });
}

/** The text of a file of at most `most` bytes. */
export async function textOf(file, most) {
  if (file.size > most) {
    throw new BadFile(`${file.name} is larger than this page accepts: verdigris detect reads texts of any length`);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch (error) {
    if (error instanceof TypeError) {
      throw new BadFile(`${file.name} is not a text in UTF-8: save it as one first`);
    }
    throw new BadFile(`${file.name} cannot be read: is it still there?`);
  }
}
