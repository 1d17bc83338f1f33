// Talking to the server this page came from; addresses are relative, so that it may stand under any path.
import { remember, remembered } from "./state";
import type { Change, Trace } from "./trace";

export interface Model {
  name: string;
  can: string[];
  source: string | null;
  target: string | null;
  chats: boolean;
  alignment: boolean;
  inspects: boolean;
  parameters: number;
  tokens: number;
  labels: string[] | null;
  limits: Record<string, number>;
}

export interface Piece {
  piece: string;
  log_prob: number;
  start: number;
  end: number;
}

export interface Words {
  source: [number, number][];
  target: [number, number][];
  weights: number[][];
}

export interface Sentence {
  start: number;
  source: string;
  text: string;
  confidence: number;
  score: number;
  tokens: Piece[];
  finished: boolean;
  truncated: boolean;
  unknown: number;
  alternatives: { text: string; confidence: number; score: number }[];
  words?: Words;
}

export interface Option {
  text: string;
  probability: number;
  end: boolean;
}

export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

let key = remembered("key", "sessionStorage") ?? "";

/** The key that is sent with every request from now on. */
export function useKey(value: string): void {
  key = value;
  remember("key", value, "sessionStorage");
}

async function ask(path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = key ? { "X-API-Key": key } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body: body === undefined ? undefined : JSON.stringify(body), signal });
  if (!answer.ok) {
    let message = `${answer.status}`;
    try {
      message = (await answer.json()).error ?? message;
    } catch {
      // no JSON: the status says enough
    }
    throw new Refusal(answer.status, message);
  }
  return answer;
}

export const models = async (): Promise<Model[]> => (await (await ask("api/models")).json()).models;

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return (await ask(path, body, signal)).json();
}

/** The events of a stream, in order. */
export async function* events(path: string, body: unknown, signal?: AbortSignal): AsyncGenerator<[string, any]> {
  const reader = (await ask(path, body, signal)).body!.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    left += value;
    for (let at = left.indexOf("\n\n"); at >= 0; at = left.indexOf("\n\n")) {
      const block = left.slice(0, at);
      left = left.slice(at + 2);
      const [kind, data] = block.split("\ndata: ");
      const told = JSON.parse(data);
      if (kind === "event: error") throw new Refusal(500, told.error);
      yield [kind.replace("event: ", ""), told];
    }
  }
}

export interface Asked {
  model: string;
  text: string;
  pair?: string;
  target?: string;
}

export const METHODS = ["input_x_gradient", "integrated_gradients", "occlusion"];

export const inspect = (asked: Asked, methods: string[], signal?: AbortSignal) => post<Trace>("api/traces", { ...asked, methods }, signal);
export const change = (asked: Asked, gates: Record<string, Record<string, number | null>>) => post<Change>("api/changes", { ...asked, gates });
export const traceAt = async (id: string): Promise<Trace> => (await ask(`api/traces/${encodeURIComponent(id)}`)).json();

/** A trace as one file. */
export const saved = async (id: string, kind: string): Promise<Blob> => (await ask(`api/traces/${encodeURIComponent(id)}/export.${kind}`)).blob();

export async function block(id: string, name: string): Promise<Uint8Array> {
  const answer = await ask(`api/traces/${encodeURIComponent(id)}/blocks/${encodeURIComponent(name)}`);
  return new Uint8Array(await answer.arrayBuffer());
}
