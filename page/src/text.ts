// From tokens to what is shown. Shown text is cut out of the original by code points, never taken from the vocabulary.
import type { Side, Token, Trace } from "./trace";

/** A row or column of a picture: one token, or the tokens of one word. tokens: places in the matrix. */
export interface Unit {
  label: string;
  title: string;
  tokens: number[];
  special: boolean;
}

/** A row or column of its own. */
export const unit = (label: string, tokens: number[], title = label, special = false): Unit => ({ label, title, tokens, special });

const letters = new WeakMap<Side, string[]>();

/** The text of a half-open range of code points of a side. */
export function cut(side: Side, start: number, end: number): string {
  let found = letters.get(side);
  if (!found) letters.set(side, (found = Array.from(side.text)));
  return found.slice(start, end).join("");
}

const MARKS: Record<string, string> = { " ": "␣", "\u00a0": "⍽", "\u3000": "□", "\n": "⏎", "\r": "␍", "\t": "⇥" };

/** Text with its spaces, line ends and invisible characters made visible, so that none can disturb the page. */
export function visible(text: string, spaces = true): string {
  return Array.from(text, (letter) => {
    const mark = MARKS[letter];
    if (mark) return spaces || letter !== " " ? mark : letter;
    // a lone zero width joiner belongs to emoji; whatever else cannot be seen is written as its number
    if (/[\p{Cc}\p{Zl}\p{Zp}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufffd]|\p{Cs}/u.test(letter))
      return "U+" + letter.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0");
    return letter;
  }).join("");
}

/** What stands for a token in a picture. */
export function label(side: Side, token: Token): string {
  const text = cut(side, token.start, token.end);
  if (!text) return token.special ? visible(token.piece) : "∅";
  const shown = text.trim() ? visible(text.trim(), false) : visible(text);
  return token.part ? `${shown} ${token.part[0] + 1}/${token.part[1]}` : shown;
}

function title(side: Side, token: Token): string {
  return label(side, token) + (token.part ? ` 0x${token.bytes}` : "");
}

/** Rows or columns of a side. kind: "word" joins the tokens of a word. specials: whether marks are shown. places: the
 * tokens that rows stand for, where they are not all. */
export function units(side: Side, kind: string, specials: boolean, places: number[] | null = null): Unit[] {
  const found: Unit[] = [];
  let last = -1;
  (places ?? side.tokens.map((_, i) => i)).forEach((place, row) => {
    const token = side.tokens[place];
    if (!token) return;
    const hidden = token.special || (token.start === token.end && !token.part);
    if (hidden && !specials) {
      last = -1;
      return;
    }
    if (kind === "word" && !places && token.word >= 0) {
      if (token.word === last) {
        found[found.length - 1].tokens.push(row);
        return;
      }
      const [start, end] = side.words[token.word];
      const text = visible(cut(side, start, end), false);
      found.push(unit(text, [row]));
      last = token.word;
      return;
    }
    last = -1;
    found.push(unit(label(side, token), [row], title(side, token), token.special));
  });
  return found;
}

/** Weights of tokens [Q, K] as weights of units: summed over the tokens of a column, meaned over those of a row (Clark et
 * al. 2019), so that rows still add up to one. first: the token of the first row of the weights. */
export function gather(weights: Float32Array, width: number, rows: Unit[], columns: Unit[], first = 0): Float32Array {
  const found = new Float32Array(rows.length * columns.length);
  rows.forEach((row, r) => {
    for (const q of row.tokens) {
      const base = (q - first) * width;
      columns.forEach((column, c) => {
        let sum = 0;
        for (const k of column.tokens) sum += weights[base + k];
        found[r * columns.length + c] += sum / row.tokens.length;
      });
    }
  });
  return found;
}

/** The readable text of a vocabulary entry. */
export function entry(trace: Trace, id: number, spaces = true): string {
  const found = trace.vocabulary[id];
  if (!found) return `#${id}`;
  if (!found.text) return visible(found.piece);
  return visible(spaces ? found.text : found.text.trim() || found.text);
}

/** A probability or weight in few digits. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : value < 0 ? "−∞" : "–";
  if (value === 0) return "0";
  if (Math.abs(value) < 5e-4) return value.toExponential(0).replace("-", "−");
  return value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 1 ? 2 : 3).replace("-", "−");
}

export function percent(value: number): string {
  if (value > 0 && value < 0.001) return "<0.1 %";
  return `${(100 * value).toFixed(value >= 0.0995 && (value < 0.99 || value === 1) ? 0 : 1)} %`;
}

/** So many of something, made by their numbers. */
export const times = <T,>(count: number, make: (number: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));

/** A half-open range of a text's code points, or of those that were made of it before. */
export const span = (text: string | string[], from: number, to?: number): string => Array.from(text).slice(from, to).join("");

/** At most so many code points of a text. */
export const short = (text: string, most: number): string => (text.length > most ? span(text, 0, most - 1) + "…" : text);
