// The format regard.trace/1, as src/regard/inspection writes it. Indices count from 0, offsets count code points.

export interface Token {
  id: number;
  piece: string;
  start: number;
  end: number;
  word: number;
  special: boolean;
  part: [number, number] | null;
  bytes: string;
}

export interface Side {
  text: string;
  tokens: Token[];
  words: [number, number][];
  truncated: boolean;
  prompt: number;
}

export interface Block {
  shape: number[];
  dtype: "uint8" | "float16" | "float32" | "int32";
  code: "plain" | "sqrt";
  data?: string;
}

export interface Attention {
  name: string;
  half: string;
  kind: string;
  layer: number;
  heads: number;
  rows: string;
  columns: string;
  size: [number, number];
  scale: number | null;
  score: string;
  head_dim: number;
  /** The block of each head that was kept whole. */
  weights: Record<string, string>;
  /** Of a long text the queries and keys of a head instead: its weights are softmax(q·k × scale). */
  products: Record<string, [string, string]>;
  overview: { max: string; mean: string; size: [number, number] } | null;
  top: { keys: string; weights: string; rest: string } | null;
  masked: null | string;
  entropy: number[];
  distance: number[] | null;
  sink: number[];
  importance: number[] | null;
  offsets: string | null;
  checks: { row_sum: number; output: number | null; dtype: string; kernel: string };
}

export interface Alignment {
  attention: string;
  layer: number;
  head: number | null;
  measured: boolean;
  agreement: number | null;
  baseline: number | null;
  matrix: string;
  words: [number, number][];
  pharaoh: string;
}

export interface Share {
  id: number;
  p: number;
}

export interface Chosen {
  id: number;
  log_prob: number;
  rank: number;
  p: number;
}

export interface Predictions {
  rows: string;
  top: Share[][];
  chosen: (Chosen | null)[];
  entropy: number[];
}

export interface Lens {
  rows: string;
  layers: string[];
  top: Share[][][];
  chosen: ({ p: number; rank: number } | null)[][];
  checked: number;
}

export interface Attribution {
  method: string;
  rows: string;
  columns: string;
  /** The rows that were asked about; those of the block. */
  places: number[];
  block: string;
  what: string;
  contrast: { row: number; chosen: number; other: number } | null;
  steps: number | null;
  error: number[] | null;
  total: number[] | null;
}

export interface Hypothesis {
  text: string;
  ids: number[];
  score: number;
  log_prob: number;
  token_log_probs: number[];
  finished: boolean;
}

export interface BeamNode {
  step: number;
  parent: number;
  token: number;
  log_prob: number;
  total: number;
  kept: boolean;
  ended: boolean;
  best: boolean;
}

export interface Hand {
  attention: string;
  head: number;
  q: string;
  k: string;
  v: string;
  bias: string | null;
  out: string;
  scale: number;
}

export interface Node {
  name: string;
  part: string;
  shapes: unknown;
  parameters: number;
  flops: number | null;
  children: Node[];
}

export interface Change {
  name: string;
  gates: Record<string, Record<string, number | null>>;
  text: string | null;
  log_prob: number | null;
  difference: number | null;
}

export interface Router {
  name: string;
  half: string;
  layer: number;
  side: string;
  count: number;
  active: number;
  share: string;
  chosen: string;
  load: number[];
}

export interface Trace {
  schema: string;
  id?: string;
  made_by: string;
  created: string;
  task: string;
  model: {
    name: string;
    kind: string;
    d_model: number;
    parameters: number;
    dtype: string;
    sha256: string | null;
    anatomy: Node | null;
  };
  sides: Record<string, Side>;
  blocks: Record<string, Block>;
  attentions: Attention[];
  alignment: Alignment | null;
  rollout: { half: string; side: string; block: string }[];
  predictions: Predictions | null;
  lens: Lens | null;
  classes: { label: string; p: number }[] | null;
  tags: ({ label: string; p: number } | null)[] | null;
  vocabulary: Record<string, { piece: string; text: string }>;
  attributions: Attribution[];
  hypotheses: Hypothesis[];
  beam: { num_beams: number; nodes: BeamNode[] } | null;
  hand: Hand[];
  positions: { kind: string; side: string; table: string | null; dots: string | null } | null;
  image: { src: string; width: number; height: number; grid: [number, number]; patch: [number, number] } | null;
  experts: Router[];
  changes: Change[];
  checks: { equal_bits: boolean; log_prob: number | null; notes: string[] };
  limits: { message: string | null; bytes: number };
}

export const SCHEMA = "regard.trace/1";

/** How far weights may be from adding up to one, or a head's output from W·V, before the page warns. */
export const TOLERANCE = 1e-3;
