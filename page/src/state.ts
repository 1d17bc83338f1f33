// What is being looked at, kept in the address behind "#", so that a link shows the same picture.
// In a sandboxed frame neither the address nor the storage may be written: then it lives in memory alone.
import { useEffect, useState } from "preact/hooks";

export type Changes = Record<string, string | number | null>;

const listeners = new Set<() => void>();
let params = read();

function read(): URLSearchParams {
  try {
    return new URLSearchParams(location.hash.slice(1));
  } catch {
    return new URLSearchParams();
  }
}

/** A value of the state, or what it usually is. */
export function get(name: string, usual = ""): string {
  return params.get(name) ?? usual;
}

/** A number of the state; what is no number counts as the usual one. */
export function getNumber(name: string, usual: number): number {
  const told = params.get(name);
  const value = told === null ? NaN : Number(told);
  return Number.isFinite(value) ? value : usual;
}

/** Change values; null takes one away. entry: whether the browser's Back returns to what was before. */
export function set(changes: Changes, entry = false): void {
  const before = params.toString();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) params.delete(name);
    else params.set(name, String(value));
  }
  if (params.toString() === before) return;
  try {
    history[entry ? "pushState" : "replaceState"](null, "", "#" + params.toString());
  } catch {
    // a frame without an address of its own
  }
  listeners.forEach((listener) => listener());
}

/** The address of what is being looked at, with some values changed. */
export function link(changes: Changes): string {
  const other = new URLSearchParams(params);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) other.delete(name);
    else other.set(name, String(value));
  }
  return "#" + other.toString();
}

for (const kind of ["hashchange", "popstate"]) {
  addEventListener(kind, () => {
    params = read();
    listeners.forEach((listener) => listener());
  });
}

/** Draw again whenever the state changes. */
export function useAddress(): void {
  const [, again] = useState(0);
  useEffect(() => {
    const listener = () => again((n) => n + 1);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
}

/** What this browser remembers, such as the theme; nothing where it may not. */
export function remembered(name: string, where: "localStorage" | "sessionStorage" = "localStorage"): string | null {
  try {
    return window[where].getItem("regard." + name);
  } catch {
    return null;
  }
}

export function remember(name: string, value: string, where: "localStorage" | "sessionStorage" = "localStorage"): void {
  try {
    window[where].setItem("regard." + name, value);
  } catch {
    // private window or sandbox: then it lasts as long as this page
  }
}
