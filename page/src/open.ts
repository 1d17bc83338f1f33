// Reading a trace: from this page, from a file that was chosen, or from the server.
import { say } from "./say";
import { SCHEMA, type Trace } from "./trace";

/** A trace from JSON, or from an HTML file that holds one. */
export function parse(text: string): Trace {
  let json = text;
  if (text.trimStart().startsWith("<")) {
    const page = new DOMParser().parseFromString(text, "text/html");
    json = page.getElementById("trace")?.textContent ?? "";
  }
  let found: Trace;
  try {
    found = JSON.parse(json);
  } catch {
    throw new Error(say("open.not"));
  }
  if (found?.schema !== SCHEMA) throw new Error(say("open.other", { schema: String(found?.schema ?? "–"), own: SCHEMA }));
  return found;
}

/** The trace inside this page, or null. */
export function embedded(): Trace | null {
  const element = document.getElementById("trace");
  return element?.textContent ? parse(element.textContent) : null;
}
