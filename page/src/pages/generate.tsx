// The page of language models: a prompt, what follows as it is written, and what else could have followed at any place.
import { useRef, useState } from "preact/hooks";
import { events, type Model, type Option, type Piece } from "../api";
import { along, Note, replaceable, Tools } from "../parts";
import { count, reason, say } from "../say";
import { get, getNumber, link, set } from "../state";
import { digits, percent, span, visible } from "../text";
import { Options, Sureness, sureness, useModel } from "./common";

interface Done {
  text: string;
  tokens: Piece[];
  finish: string;
  confidence: number;
}

export function Generate({ models }: { models: Model[] }) {
  const [model, picker] = useModel(models, "generate");
  const [given, setGiven] = useState(""); // what follows the prompt by choice
  const [text, setText] = useState("");
  const [done, setDone] = useState<Done | null>(null);
  const [wrong, setWrong] = useState("");
  const [busy, setBusy] = useState(false);
  const [open, setOpen] = useState(-1);
  const [undo, setUndo] = useState<[string, Done | null][]>([]);
  const [seconds, setSeconds] = useState(0);
  const stop = useRef<AbortController | null>(null);
  if (!model) return <Note>{say("no.model", { verb: say("page.generate") })}</Note>;
  const prompt = get("prompt");
  const numbers: [string, string, number, number][] = [
    ["tokens", "max_new_tokens", 1, model.limits.new_tokens],
    ["temperature", "temperature", 0.05, 5],
    ["top_k", "top_k", 0, 1000],
    ["top_p", "top_p", 0.01, 1],
    ["seed", "seed", 0, 2 ** 31],
  ];
  const run = async (before: string) => {
    stop.current?.abort();
    const own = (stop.current = new AbortController());
    setGiven(before);
    setText("");
    setDone(null);
    setOpen(-1);
    setWrong("");
    setBusy(true);
    const asked: Record<string, unknown> = { model: model.name, prompt: prompt + before, stream: true, max_new_tokens: getNumber("tokens", 60) };
    for (const [name, field] of numbers.slice(1)) if (get(name)) asked[field] = getNumber(name, 0);
    if (get("temperature") || get("top_k") || get("top_p")) asked.sample = true;
    const began = performance.now();
    try {
      let made = "";
      for await (const [kind, told] of events("api/generate", asked, own.signal)) {
        if (kind === "piece") setText((made += told.text));
        if (kind === "done") setDone(told);
        setSeconds((performance.now() - began) / 1000);
      }
    } catch (error) {
      if (!own.signal.aborted) setWrong(reason(error));
    } finally {
      if (stop.current === own) setBusy(false);
    }
  };
  const choose = (place: number, option: Option) => {
    const before = span(done!.text, 0, done!.tokens[place].start).trimEnd();
    setUndo([...undo, [given, done]]);
    run(given + before + option.text);
  };
  const back = () => {
    const [before, was] = undo[undo.length - 1];
    stop.current?.abort();
    setUndo(undo.slice(0, -1));
    setGiven(before);
    setDone(was);
  };
  const letters = Array.from(done?.text ?? "");
  return (
    <section class="desk" aria-label={say("page.generate")}>
      <Tools>
        {picker}
        {numbers.map(([name, field, least, most]) => (
          <label class="field"><span>{field === "max_new_tokens" ? say("tokens.most") : field}</span>
            <input type="number" min={least} max={most} step="any" value={get(name, name === "tokens" ? "60" : "")} placeholder="–" onChange={(event) => set({ [name]: event.currentTarget.value || null })} />
          </label>
        ))}
      </Tools>
      <div class="pane story">
        <textarea aria-label={say("generate.input")} placeholder={say("generate.input")} value={prompt} onInput={(event) => set({ prompt: event.currentTarget.value || null })}
          onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(""); }} />
        <Tools>
          <button class="main" onClick={() => { setUndo([]); run(""); }}>{say("go.on")}</button>
          {busy && <button onClick={() => { stop.current?.abort(); setBusy(false); }}>{say("stop")}</button>}
          {undo.length > 0 && <button onClick={back}>↶ {say("undo")}</button>}
          <span class="faint">Ctrl + Enter</span>
        </Tools>
        <div class={"out written" + (busy ? " coming" : "")} role="group" aria-label={say("generated")}>
          {(given || text || done) && <span class="prompt">{prompt}</span>}
          {given && <span class="said forced">{given}</span>}
          {!done && text}
          {done?.tokens.map((token, i) => {
            if (token.end <= token.start) return null;
            const own = span(letters, token.start, token.end);
            const probability = Math.exp(token.log_prob);
            return (
              <span class="holder">
                <span role="button" tabIndex={i === Math.max(0, open) ? 0 : -1} data-word={`0.${i}`} class={"said" + sureness(probability)} aria-haspopup="menu" aria-expanded={open === i}
                  aria-label={`${visible(own.trim() || own)}, ${percent(probability)}`} title={percent(probability)}
                  onClick={() => setOpen(open === i ? -1 : i)}
                  onKeyDown={(event) => {
                    if (event.key === "Enter" || event.key === " ") { setOpen(i); event.preventDefault(); }
                    along(event, replaceable());
                  }}
                >{own}</span>
                {open === i && <Options asked={{ model: model.name, text: prompt + given, prefix: span(letters, 0, token.start) }} now={own.trim()} onChoose={(option) => choose(i, option)} onClose={() => setOpen(-1)} />}
              </span>
            );
          })}
        </div>
        <p class="unseen" role="status">{busy ? say("loading") : ""}</p>
      </div>
      {wrong && <Note kind="wrong">{wrong}</Note>}
      {done && (
        <>
          <p class="status faint">
            {say("translate.status", { seconds: digits(seconds), tokens: count(done.tokens.length), rate: count(Math.round(done.tokens.length / Math.max(seconds, 1e-3))) })} · {percent(done.confidence)}
          </p>
          <Sureness />
          {model.inspects && <p><a class="inside" href={link({ page: "inspect", model: model.name, text: prompt + given, target: done.text, view: "next" })}>{say("look.inside")} →</a></p>}
        </>
      )}
    </section>
  );
}
