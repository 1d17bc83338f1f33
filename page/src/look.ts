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
  change(gates: Record<string, Record<string, number>>): Promise<Trace["changes"][number]>;
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

/** Rows and columns of an attention as units. */
export function axes(trace: Trace, attention: Attention): { rows: Unit[]; columns: Unit[] } {
  const unit = wordy() ? "word" : "piece";
  return {
    rows: units(trace.sides[attention.rows], unit, specials()),
    columns: units(trace.sides[attention.columns], unit, specials()),
  };
}

/** Weights [Q, K] of a head, or with -1 the mean of the heads that were kept; undefined: on their way; null: not kept. */
export function useWeights(attention: Attention | null, head: number): Float32Array | null | undefined {
  const { blocks } = useLook();
  const all = attention ? Object.values(attention.weights) : [];
  const names = head < 0 ? all : [attention?.weights[head] ?? null];
  const found = useBlocks(blocks, names);
  return useMemo(() => {
    if (found === undefined) return undefined;
    const kept = found.filter((one): one is Float32Array => one !== null);
    if (!kept.length) return null;
    if (kept.length === 1) return kept[0];
    const mean = new Float32Array(kept[0].length);
    for (const one of kept) for (let i = 0; i < mean.length; i++) mean[i] += one[i] / kept.length;
    return mean;
  }, [found === undefined, names.join()]);
}

export interface Shown {
  rows: Unit[];
  columns: Unit[];
  values: Float32Array;
  hidden: Float32Array;
  masked?: (row: number, column: number) => boolean;
}

/** An attention's weights by units, with what hiding took away from each row. */
export function useShown(attention: Attention | null, head: number): Shown | null | undefined {
  const { trace, blocks } = useLook();
  const weights = useWeights(attention, head);
  const maskName = attention?.masked && attention.masked !== "causal" ? attention.masked : null;
  const mask = useBlocks(blocks, [maskName]);
  const key = `${attention?.name} ${head} ${wordy()} ${specials()}`;
  return useMemo(() => {
    if (!attention || weights === null) return null;
    if (weights === undefined || mask === undefined) return undefined;
    const { rows, columns } = axes(trace, attention);
    const values = gather(weights, attention.size[1], rows, columns);
    const hidden = new Float32Array(rows.length);
    rows.forEach((_, r) => {
      let sum = 0;
      for (let c = 0; c < columns.length; c++) sum += values[r * columns.length + c];
      hidden[r] = Math.max(0, 1 - sum);
    });
    return { rows, columns, values, hidden, masked: maskedOf(attention, mask[0], rows, columns) };
  }, [key, weights, mask === undefined]);
}

function maskedOf(attention: Attention, mask: Float32Array | null, rows: Unit[], columns: Unit[]): Shown["masked"] {
  if (attention.masked === null) return undefined;
  if (attention.masked === "causal") return (row, column) => columns[column].tokens[0] > rows[row].tokens[rows[row].tokens.length - 1];
  if (!mask) return undefined;
  const width = attention.size[1];
  return (row, column) => rows[row].tokens.every((q) => columns[column].tokens.every((k) => mask[q * width + k] === 1));
}
