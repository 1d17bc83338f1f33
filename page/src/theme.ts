// Light or dark: as chosen, else as the system is set.
import { useEffect, useState } from "preact/hooks";
import { get, remember, remembered, set } from "./state";

const dark = matchMedia("(prefers-color-scheme: dark)");

export function theme(): "light" | "dark" {
  const told = get("theme") || remembered("theme");
  return told === "dark" || told === "light" ? told : dark.matches ? "dark" : "light";
}

/** The theme, written where the style sheet reads it; draws again when the system changes. */
export function useTheme(): "light" | "dark" {
  const [, again] = useState(0);
  useEffect(() => {
    const listener = () => again((n) => n + 1);
    dark.addEventListener("change", listener);
    return () => dark.removeEventListener("change", listener);
  }, []);
  const now = theme();
  document.documentElement.dataset.theme = now;
  return now;
}

export function turn(): void {
  const other = theme() === "dark" ? "light" : "dark";
  remember("theme", other);
  set({ theme: other });
}
