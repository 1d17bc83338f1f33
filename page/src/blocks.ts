// Numbers of a trace: from base64 in the page, or fetched from the server when they are looked at.
import { useEffect, useState } from "preact/hooks";
import type { Block, Trace } from "./trace";

export interface BlockSource {
  /** The numbers of a block at once, if they are here already. */
  have(name: string): Float32Array | undefined;
  /** The numbers of a block, wherever they are. */
  load(name: string): Promise<Float32Array>;
}

export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** From the bytes of a block (little-endian, as every browser is) to its numbers. */
export function decode(block: Block, bytes: Uint8Array): Float32Array {
  const count = block.shape.reduce((a, b) => a * b, 1);
  const buffer = bytes.byteOffset ? bytes.slice().buffer : bytes.buffer;
  if (block.dtype === "float32") return new Float32Array(buffer, 0, count);
  if (block.dtype === "int32") return new Float32Array(new Int32Array(buffer, 0, count));
  const numbers = new Float32Array(count); // filled in loops: Float32Array.from is ten times slower
  if (block.dtype === "float16") {
    const bits = new Uint32Array(numbers.buffer);
    new Uint16Array(buffer, 0, count).forEach((half, i) => (bits[i] = ((half & 0x8000) << 16) | ((half & 0x7fff) << 13)));
    for (let i = 0; i < count; i++) numbers[i] *= 2 ** 112; // the exponents of halves begin 112 lower
  } else for (let i = 0; i < count; i++) numbers[i] = block.code === "sqrt" ? (bytes[i] / 255) ** 2 : bytes[i];
  return numbers;
}

/** Blocks that are decoded once. fetchBytes: for those whose data is not in the trace. */
export class Blocks implements BlockSource {
  private readonly made = new Map<string, Float32Array>();
  private readonly asked = new Map<string, Promise<Float32Array>>();

  constructor(
    private readonly trace: Trace,
    private readonly fetchBytes?: (name: string) => Promise<Uint8Array>,
  ) {}

  have(name: string): Float32Array | undefined {
    const found = this.made.get(name);
    if (found) return found;
    const block = this.trace.blocks[name];
    if (block?.data === undefined) return undefined;
    return this.keep(name, decode(block, bytesOf(block.data)));
  }

  load(name: string): Promise<Float32Array> {
    const here = this.have(name);
    if (here) return Promise.resolve(here);
    let asked = this.asked.get(name);
    if (!asked) {
      if (!this.fetchBytes || !this.trace.blocks[name]) return Promise.reject(new Error(`no block ${name}`));
      asked = this.fetchBytes(name).then((bytes) => this.keep(name, decode(this.trace.blocks[name], bytes)));
      asked.catch(() => this.asked.delete(name));
      this.asked.set(name, asked);
    }
    return asked;
  }

  private keep(name: string, numbers: Float32Array): Float32Array {
    this.made.set(name, numbers);
    return numbers;
  }
}

/** The numbers of several blocks, null for a name that is null; undefined while some are on their way. */
export function useBlocks(source: BlockSource, names: (string | null)[]): (Float32Array | null)[] | undefined {
  const key = names.join("\n");
  const [, again] = useState(0);
  const here = names.map((name) => (name === null ? null : source.have(name)));
  const missing = here.some((one) => one === undefined);
  useEffect(() => {
    if (!missing) return;
    let wanted = true;
    const loads = names.filter((name): name is string => name !== null).map((name) => source.load(name));
    Promise.all(loads).then(
      () => wanted && again((n) => n + 1),
      () => undefined,
    );
    return () => {
      wanted = false;
    };
  }, [key, source, missing]);
  return missing ? undefined : (here as (Float32Array | null)[]);
}
