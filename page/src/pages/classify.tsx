// The classification page: classes as bars while one writes, or a label under every token.
import { useState } from "preact/hooks";
import { post, type Model } from "../api";
import { Bars, Note, Tools } from "../parts";
import { say } from "../say";
import { get, link, set } from "../state";
import { percent } from "../text";
import { useLater, useModel } from "./common";

interface Found {
  label: string;
  probability: number;
  probabilities: Record<string, number>;
  tokens: { text: string; start: number; end: number; label: string; probability: number }[];
  truncated: boolean;
}

export function Classify({ models }: { models: Model[] }) {
  const [model, picker] = useModel(models, "classify");
  const [found, setFound] = useState<Found | null>(null);
  const text = get("text");
  const pair = get("pair");
  const [busy, wrong] = useLater(
    async (signal) => {
      if (!model || !text.trim()) return setFound(null);
      const asked = { model: model.name, text: [pair ? [text, pair] : text] };
      const told = await post<{ classifications: Found[] }>("api/classify", asked, signal);
      if (!signal.aborted) setFound(told.classifications[0]);
    },
    [text, pair, model?.name],
  );
  if (!model) return <Note>{say("no.model", { verb: say("page.classify") })}</Note>;
  return (
    <section class="desk" aria-label={say("page.classify")}>
      <Tools>{picker}</Tools>
      <div class="panes">
        <div class="pane">
          <div class="pane-head"><span>{say("text")}</span></div>
          <textarea aria-label={say("classify.input")} placeholder={say("classify.input")} value={text} onInput={(event) => set({ text: event.currentTarget.value || null })} />
          <details class="more" open={pair !== ""}>
            <summary>{say("classify.pair")}</summary>
            <textarea class="low" aria-label={say("classify.pair")} value={pair} onInput={(event) => set({ pair: event.currentTarget.value || null })} />
          </details>
        </div>
        <div class={"pane answer-pane" + (busy ? " busy" : "")} aria-live="polite">
          <div class="pane-head"><span>{say("classes")}</span></div>
          {!found && <Note>{say("classify.empty")}</Note>}
          {found && found.tokens.length === 0 && (
            <>
              <p class="verdict"><bdi>{found.label}</bdi> <span class="faint">{percent(found.probability)}</span></p>
              <Bars name={say("classes")} most={1} items={Object.entries(found.probabilities).slice(0, 20).map(([label, value]) => ({ label, value, mark: label === found.label }))} />
            </>
          )}
          {found && found.tokens.length > 0 && (
            <div class="chips">
              {found.tokens.map((token) => (
                <span class="tagged" title={percent(token.probability)}><span class="chip"><bdi>{token.text.trim()}</bdi></span><small>{token.label}</small></span>
              ))}
            </div>
          )}
          {found?.truncated && <Note kind="wrong">{say("truncated")}</Note>}
        </div>
      </div>
      {wrong && <Note kind="wrong">{wrong}</Note>}
      {found && model.inspects && (
        <p><a class="inside" href={link({ page: "inspect", model: model.name, text, pair: pair || null, view: "why" })}>{say("look.why")} →</a></p>
      )}
    </section>
  );
}
