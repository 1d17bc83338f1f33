// What is being looked at in a trace: which attention, which head, which rows and columns; read from the address.
import { createContext } from "preact";
import { useContext, useMemo } from "preact/hooks";
import { useBlocks, type BlockSource } from "./blocks";
import { get, getNumber } from "./state";
import { gather, units, type Unit } from "./text";
import type { Attention, Trace } from "./trace";

export interface Looked {
  trace: Trace;
  blocks: BlockSource;
  /** With a server: head switches that are tried anew. */
  server: Server | null;
}

export interface Server {
  model: string;
  text: string;
  change(gates: Record<string, Record<string, number | null>>): Promise<Trace["changes"][number]>;
}

export const Looking = createContext<Looked>(null as unknown as Looked);
export const useLook = () => useContext(Looking);

/** "encoder self", "decoder causal", "decoder cross" … */
export const groupOf = (attention: Attention) => `${attention.half} ${attention.kind}`;

export function groups(trace: Trace): string[] {
  return [...new Set(trace.attentions.map(groupOf))];
}

/** The attention that the address names, else the one of the alignment, else the last. */
export function chosen(trace: Trace): Attention | null {
  if (!trace.attentions.length) return null;
  const aligned = trace.attentions.find((one) => one.name === trace.alignment?.attention);
  const usual = aligned ?? trace.attentions[trace.attentions.length - 1];
  const group = get("kind", groupOf(usual));
  const own = trace.attentions.filter((one) => groupOf(one) === group);
  if (!own.length) return usual;
  const layer = getNumber("layer", own.includes(usual) ? usual.layer : own[own.length - 1].layer);
  return own.find((one) => one.layer === layer) ?? own[own.length - 1];
}

/** The head that the address names; -1: the mean of all. */
export function chosenHead(trace: Trace, attention: Attention): number {
  const told = get("head");
  if (told === "mean") return -1;
  if (told === "" && trace.alignment?.attention === attention.name) return trace.alignment.head ?? -1;
  const head = told === "" ? -1 : Number(told);
  return head >= 0 && head < attention.heads ? head : -1;
}

export const wordy = () => get("unit") === "word";
export const specials = () => get("spec", "1") !== "0";
export const palette = () => get("pal", "ink");

/** Rows and columns of an attention as units. A decoder's rows are named by what was written there, or as the address says
 * by what was read, one place before. */
export function axes(trace: Trace, attention: Attention): { rows: Unit[]; columns: Unit[] } {
  const unit = wordy() ? "word" : "piece";
  const rows = attention.rows === "target" && trace.sides.read && get("rows") ? "read" : attention.rows;
  return {
    rows: units(trace.sides[rows], unit, specials()),
    columns: units(trace.sides[attention.columns], unit, specials()),
  };
}

/** The heads whose weights can be had whole. */
export const keptHeads = (attention: Attention): string[] => [...Object.keys(attention.weights), ...Object.keys(attention.products)];

/** More rows or columns than these are shown by parts, of so many each. */
const MOST = 512;
export const PART = 256;

/** Which of so many rows or columns are shown, as [from, to). name: where the address says from which on. */
export function part(name: string, count: number, most = MOST, size = PART): [number, number] {
  if (count <= most) return [0, count];
  const from = Math.max(0, Math.min(count - size, Math.floor(getNumber(name, 0))));
  return [from, from + size];
}

type Mask = ((query: number, key: number) => boolean) | undefined;

/** Which cells are barred, by tokens. */
export function maskOf(attention: Attention, mask: Float32Array | null): Mask {
  if (attention.masked === "causal") return (query, key) => key > query;
  return mask ? (query, key) => mask[query * attention.size[1] + key] === 1 : undefined;
}

/** The products of a query with every key, and its weights, by the definition. */
export function scored(q: Float32Array, k: Float32Array, scale: number, bias: Float32Array | null, masked?: (key: number) => boolean) {
  const [deep, count] = [q.length, k.length / q.length];
  const [products, weights] = [new Float64Array(count), new Float64Array(count)];
  let high = -Infinity;
  for (let key = 0; key < count; key++) {
    let dot = 0; // a local number is much faster than one in an array
    for (let i = 0; i < deep; i++) dot += q[i] * k[key * deep + i];
    products[key] = dot;
    dot = weights[key] = masked?.(key) ? -Infinity : dot * scale + (bias?.[key] ?? 0);
    if (dot > high) high = dot;
  }
  let sum = 0;
  for (let key = 0; key < count; key++) sum += weights[key] = high === -Infinity ? 0 : Math.exp(weights[key] - high);
  for (let key = 0; key < count; key++) weights[key] /= sum || 1;
  return { products, weights };
}

/** Weights [to - from, K] of a head's rows, or with -1 the mean of the heads that were kept; undefined: on their way; null:
 * not kept. mask: which cells are barred. */
export function useWeights(attention: Attention | null, head: number, from = 0, to = attention?.size[0] ?? 0): { weights: Float32Array | null | undefined; mask: Mask } {
  const { blocks } = useLook();
  const heads = attention ? keptHeads(attention).filter((one) => head < 0 || Number(one) === head) : [];
  const barred = attention?.masked && attention.masked !== "causal" ? attention.masked : null;
  const names = heads.flatMap((one) => attention!.products[one] ?? [attention!.weights[one]]);
  const found = useBlocks(blocks, [barred, ...names]);
  return useMemo(() => {
    if (!attention || !heads.length) return { weights: null, mask: undefined };
    if (!found) return { weights: undefined, mask: undefined };
    const mask = maskOf(attention, found[0]);
    const width = attention.size[1];
    const weights = new Float32Array((to - from) * width);
    let at = 1;
    for (const one of heads) {
      const [own, keys] = [found[at++]!, attention.products[one] && found[at++]!];
      for (let row = from; row < to; row++) {
        const given = keys
          ? scored(own.subarray(row * attention.head_dim, (row + 1) * attention.head_dim), keys, attention.scale!, null, mask && ((key) => mask(row, key))).weights
          : own.subarray(row * width, (row + 1) * width);
        for (let key = 0; key < width; key++) weights[(row - from) * width + key] += given[key] / heads.length;
      }
    }
    return { weights, mask };
  }, [attention, !found, names.join(), from, to]);
}

export interface Shown {
  rows: Unit[];
  columns: Unit[];
  values: Float32Array;
  /** Of each row what the hidden marks have. */
  hidden: Float32Array;
  masked?: (row: number, column: number) => boolean;
  /** The first row and column, and how many there are in all. */
  from: [number, number];
  of: [number, number];
}

/** An attention's weights by units, of a long text those of a part, with what hiding took away from each row. */
export function useShown(attention: Attention | null, head: number): Shown | null | undefined {
  const { trace } = useLook();
  const key = `${attention?.name} ${wordy()} ${specials()} ${get("rows")}`;
  const all = useMemo(() => attention && axes(trace, attention), [trace, key]);
  const [r, rTo] = part("r", all?.rows.length ?? 0);
  const [c, cTo] = part("c", all?.columns.length ?? 0);
  const rows = useMemo(() => all?.rows.slice(r, rTo) ?? [], [all, r]);
  const tokens = rows.flatMap((row) => row.tokens);
  const first = tokens[0] ?? 0;
  const { weights, mask } = useWeights(attention, head, first, (tokens[tokens.length - 1] ?? -1) + 1);
  const even = get("norm");
  return useMemo(() => {
    if (!weights) return weights;
    if (!attention || !all) return null;
    const columns = all.columns.slice(c, cTo);
    const whole = gather(weights, attention.size[1], rows, all.columns, first);
    const hidden = new Float32Array(rows.length);
    const values = new Float32Array(rows.length * columns.length);
    rows.forEach((_, row) => {
      const own = whole.subarray(row * all.columns.length, (row + 1) * all.columns.length);
      const sum = own.reduce((a, b) => a + b, 0);
      hidden[row] = Math.max(0, 1 - sum);
      values.set(own.subarray(c, cTo).map((value) => (even && sum ? value / sum : value)), row * columns.length);
    });
    const masked = mask && ((row: number, column: number) => rows[row].tokens.every((query) => columns[column].tokens.every((one) => mask(query, one))));
    return { rows, columns, values, hidden, masked, from: [r, c], of: [all.rows.length, all.columns.length] };
  }, [all, rows, weights, c, even]);
}
