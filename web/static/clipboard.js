// Puts text on the clipboard, or says why not.

// The clipboard's own way is there only where the page came over TLS or from this machine.
export async function put(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("the browser does not let this page copy");
}
