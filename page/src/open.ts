// Reading a trace: from this page, from a file that was chosen, or from the server.
import { bytesOf } from "./blocks";
import { say } from "./say";
import { SCHEMA, type Trace } from "./trace";

/** A trace from JSON, or from an HTML file that holds one. */
export async function parse(text: string): Promise<Trace> {
  if (text.trimStart().startsWith("<")) return held(new DOMParser().parseFromString(text, "text/html"));
  let found: Trace;
  try {
    found = JSON.parse(text);
  } catch {
    throw new Error(say("open.not"));
  }
  if (found?.schema !== SCHEMA) throw new Error(say("open.other", { schema: String(found?.schema ?? "–"), own: SCHEMA }));
  return found;
}

/** The trace that a page holds: JSON, deflated, in base64. */
export async function held(page: Document): Promise<Trace> {
  if (!("DecompressionStream" in window)) throw new Error(say("open.old"));
  let text: string;
  try {
    const bytes = new Blob([bytesOf(page.getElementById("trace")!.textContent!)]);
    text = await new Response(bytes.stream().pipeThrough(new DecompressionStream("deflate"))).text();
  } catch {
    throw new Error(say("open.not"));
  }
  return parse(text);
}
