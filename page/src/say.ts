// The words of the page in the reader's language: en.json and zh.json, which the page carries as data beside the script.
import type en from "./en.json";
import { get, remembered } from "./state";

export type Key = keyof typeof en;

const TEXTS: Record<string, Record<string, string>> = JSON.parse(document.getElementById("words")!.textContent!);

/** "en" or "zh": as the address says, else as chosen before, else as the browser is set. */
export function language(): string {
  const told = get("lang") || remembered("lang") || navigator.language || "en";
  return told.toLowerCase().startsWith("zh") ? "zh" : "en";
}

/** A text; {name} in it is replaced by values. */
export function say(key: Key, values: Record<string, string | number> = {}): string {
  return TEXTS[language()][key].replace(/\{(\w+)\}/g, (whole, name: string) => (name in values ? String(values[name]) : whole));
}

/** A text whose key is put together; the last part itself where there is none. */
export function named(prefix: string, name: string): string {
  return TEXTS[language()][prefix + name] ?? name;
}

/** A whole number in the reader's way of writing. */
export function count(value: number): string {
  return value.toLocaleString(language() === "zh" ? "zh-CN" : "en");
}

/** What an error says. */
export const reason = (error: unknown): string => (error instanceof Error ? error.message : String(error));
