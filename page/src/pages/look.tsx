// The page that asks the server for a trace of a text, and shows it.
import { useMemo, useState } from "preact/hooks";
import { block, change, inspect, METHODS, saved, traceAt, type Asked, type Model } from "../api";
import { Blocks } from "../blocks";
import { Inspector } from "../inspector";
import type { Server } from "../look";
import { Choice, download, Note } from "../parts";
import { say } from "../say";
import { get, set } from "../state";
import type { Trace } from "../trace";
import { useLater } from "./common";

export function Look({ models, showKeys }: { models: Model[]; showKeys: () => void }) {
  const able = models.filter((one) => one.inspects);
  const model = able.find((one) => one.name === get("model")) ?? able[0];
  const [made, setMade] = useState<{ trace: Trace; of: string } | null>(null);
  const [draft, setDraft] = useState<{ text: string; target: string } | null>(null);
  const asked: Asked = { model: model?.name ?? "", text: get("text") };
  if (get("pair")) asked.pair = get("pair");
  if (get("target")) asked.target = get("target");
  const of = get("trace") || JSON.stringify(asked);
  const [busy, wrong] = useLater(
    async (signal) => {
      if (!model || (!asked.text.trim() && !get("trace"))) return setMade(null);
      const found = get("trace") ? await traceAt(get("trace")) : await inspect(asked, get("all") ? METHODS : METHODS.slice(0, 1), signal);
      if (!signal.aborted) setMade({ trace: found, of });
    },
    [asked.model, asked.text, asked.pair, asked.target, get("trace"), get("all")],
    0,
  );
  const trace = made?.of === of ? made.trace : null; // never one text's picture under another
  const looked = useMemo(() => {
    if (!trace) return null;
    const fetchBytes = trace.id === undefined ? undefined : (name: string) => block(trace.id!, name);
    const server: Server = { model: asked.model, text: asked.text, change: (gates) => change(asked, gates) };
    return { trace, blocks: new Blocks(trace, fetchBytes), server };
  }, [trace]);
  if (!model) return <Note>{say("no.model", { verb: say("page.inspect") })}</Note>;
  const now = draft ?? { text: asked.text, target: asked.target ?? "" };
  const send = (event: Event) => {
    event.preventDefault();
    set({ text: now.text || null, target: now.target || null, pair: null, trace: null, all: null, q: null, k: null }, true);
    setDraft(null);
  };
  const forced = model.can.includes("translate") || model.can.includes("generate");
  return (
    <section class="desk" aria-label={say("page.inspect")}>
      <form class="ask" onSubmit={send}>
        <Choice label={say("model")} value={model.name} options={able.map((one) => [one.name, one.name])} onChange={(one) => set({ model: one, trace: null })} />
        <label class="field wide"><span>{say("text")}</span>
          <input type="text" value={now.text} onInput={(event) => setDraft({ ...now, text: event.currentTarget.value })} />
        </label>
        {forced && (
          <label class="field wide"><span>{say("forced")}</span>
            <input type="text" value={now.target} placeholder={say("forced.own")} onInput={(event) => setDraft({ ...now, target: event.currentTarget.value })} />
          </label>
        )}
        <button type="submit" class="main">{say("look")}</button>
        {trace?.id !== undefined && <button type="button" onClick={async () => download("regard.html", await saved(trace.id!, "html"))}>{say("as.file")}</button>}
      </form>
      {wrong && <Note kind="wrong">{wrong}</Note>}
      {busy && <p class="note" role="status">{say("loading")}</p>}
      {!looked && !busy && !wrong && <Note>{say("inspect.empty")}</Note>}
      {looked && <Inspector {...looked} showKeys={showKeys} />}
    </section>
  );
}
