// The frame around the views of a trace: which view, what it is of, export, keys.
import { useEffect, useState } from "preact/hooks";
import type { ComponentType } from "preact";
import { saved } from "./api";
import { chosen, chosenHead, groupOf, keptHeads, Looking, specials, wordy, type Looked } from "./look";
import { About, download, Note } from "./parts";
import { picture } from "./picture";
import { named, say, type Key } from "./say";
import { get, set } from "./state";
import { count } from "./say";
import { digits, short } from "./text";
import { turn } from "./theme";
import type { Trace } from "./trace";
import { Align } from "./views/align";
import { Anatomy } from "./views/anatomy";
import { Beam } from "./views/beam";
import { Compare } from "./views/compare";
import { Experts } from "./views/experts";
import { Grid } from "./views/grid";
import { Hand } from "./views/hand";
import { Heads } from "./views/heads";
import { Next } from "./views/next";
import { Off } from "./views/off";
import { Patches } from "./views/patches";
import { Positions } from "./views/positions";
import { Tokens } from "./views/tokens";
import { Why } from "./views/why";

const always = () => true;
const looks = (trace: Trace) => trace.attentions.length > 0;

/** Every view, and whether a trace has something for it. */
export const VIEWS: Record<string, [ComponentType, (trace: Trace) => boolean]> = {
  align: [Align, (trace) => looks(trace) || trace.task === "translate"],
  tokens: [Tokens, always],
  grid: [Grid, looks],
  heads: [Heads, looks],
  hand: [Hand, looks],
  next: [Next, (trace) => trace.predictions !== null || trace.classes !== null],
  why: [Why, (trace) => trace.attributions.length + trace.rollout.length > 0],
  off: [Off, looks],
  beam: [Beam, (trace) => trace.beam !== null || trace.hypotheses.length > 1],
  patches: [Patches, (trace) => trace.image !== null],
  experts: [Experts, (trace) => trace.experts.length > 0],
  positions: [Positions, (trace) => trace.positions !== null || trace.attentions.some((one) => one.offsets)],
  compare: [Compare, looks],
  anatomy: [Anatomy, always],
};

function next(values: string[], now: string, step: number): string {
  return values[(values.indexOf(now) + step + values.length) % values.length];
}

/** Single keys. They may be switched off, and do nothing while something is written. */
function useKeys(trace: Trace, views: string[], showKeys: () => void): void {
  useEffect(() => {
    const listener = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.altKey || event.ctrlKey || event.metaKey || get("keys") === "off") return;
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || document.querySelector("dialog[open]")) return;
      const attention = chosen(trace);
      const layers = attention ? trace.attentions.filter((one) => groupOf(one) === groupOf(attention)).map((one) => String(one.layer)) : [];
      const heads = attention ? ["mean", ...keptHeads(attention)] : [];
      const head = attention ? chosenHead(trace, attention) : -1;
      const now = head < 0 ? "mean" : String(head);
      const layer = (step: number) => attention && set({ kind: groupOf(attention), layer: next(layers, String(attention.layer), step), head: now });
      const acts: Record<string, () => unknown> = {
        "[": () => layer(-1),
        "]": () => layer(1),
        ",": () => attention && set({ kind: groupOf(attention), layer: attention.layer, head: next(heads, now, -1) }),
        ".": () => attention && set({ kind: groupOf(attention), layer: attention.layer, head: next(heads, now, 1) }),
        a: () => attention && set({ kind: groupOf(attention), layer: attention.layer, head: "mean", heads: null }),
        w: () => set({ unit: wordy() ? null : "word", q: null, k: null }),
        s: () => set({ spec: specials() ? "0" : null, q: null, k: null }),
        t: () => set({ table: get("table") ? null : "1" }),
        d: turn,
        e: () => document.querySelector<HTMLElement>("[data-export] button")?.focus(),
        n: () => set({ view: next(views, get("view", views[0]), 1) }),
        p: () => set({ view: next(views, get("view", views[0]), -1) }),
        Escape: () => set({ q: null, k: null }),
        "/": () => document.querySelector<HTMLElement>("textarea, nav button")?.focus(),
        "?": showKeys,
      };
      const act = acts[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", listener);
    return () => removeEventListener("keydown", listener);
  }, [trace, views.join()]);
}

export function Inspector(props: Looked & { showKeys: () => void }) {
  const { trace } = props;
  const views = Object.keys(VIEWS).filter((name) => VIEWS[name][1](trace));
  const told = get("view", views[0]);
  const view = told in VIEWS ? told : views[0];
  const [View] = VIEWS[view];
  useKeys(trace, views, props.showKeys);
  const text = trace.sides.source?.text ?? trace.sides.read?.text ?? "";
  const answer = trace.task === "translate" || trace.task === "generate" ? (trace.hypotheses[0]?.text ?? trace.sides.target?.text ?? "") : "";
  return (
    <Looking.Provider value={props}>
      <section class="subject">
        <p><bdi>{short(text, 400)}</bdi></p>
        {answer && <p class="answer"><span aria-hidden>→ </span><bdi>{short(answer, 400)}</bdi></p>}
        {trace.classes && <p class="answer"><span aria-hidden>→ </span><bdi>{trace.classes[0].label}</bdi> <span class="faint">{digits(trace.classes[0].p)}</span></p>}
        <p class="faint">{trace.model.name} · {named("task.", trace.task)} · {count(trace.model.parameters)} {say("parameters")} · {trace.made_by}</p>
      </section>
      {trace.limits.message && <Note kind="wrong">{trace.limits.message}</Note>}
      <div class="inspector">
        <nav class="views" aria-label={say("views")}>
          {views.map((name) => (
            <button aria-current={name === view ? "page" : undefined} onClick={() => set({ view: name, q: null, k: null }, true)}>
              {named("view.", name)}
            </button>
          ))}
        </nav>
        <div class="view" id="view">
          <header class="view-head">
            <h2>{named("view.", view)}</h2>
            <Export trace={trace} view={view} />
          </header>
          <About view={view} />
          <View key={view} />
        </div>
      </div>
      <footer class="foot">
        <p>{say("caution")}</p>
        <p class="faint">
          {trace.checks.equal_bits ? "✓ " + say("checks.bits") : ""}
          {trace.checks.log_prob !== null ? " · " + say("checks.forced", { apart: digits(trace.checks.log_prob) }) : ""}
          {trace.checks.notes.map((note) => " · " + note)}
        </p>
      </footer>
    </Looking.Provider>
  );
}

function Export({ trace, view }: { trace: Trace; view: string }) {
  const [wrong, setWrong] = useState<Key | "">("");
  const save = async (kind: "svg" | "png") => {
    const found = await picture(document.getElementById("view")!, kind);
    setWrong(found ? "" : "export.none");
    if (found) download(`regard-${view}.${kind}`, found);
  };
  const json = async () => download("regard-trace.json", trace.id ? await saved(trace.id, "json") : new Blob([JSON.stringify(trace)], { type: "application/json" }));
  return (
    <span class="buttons" role="group" data-export aria-label={say("export")}>
      {wrong && <span class="faint" role="status">{say(wrong)}</span>}
      <button class="small" onClick={() => save("svg")}>SVG</button>
      <button class="small" onClick={() => save("png")}>PNG</button>
      <button class="small" onClick={json}>JSON</button>
    </span>
  );
}
