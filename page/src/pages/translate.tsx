// The translation page: text in, translation out while it becomes certain; every word shows where it comes from and what
// else it could have been, and choosing another goes on from there.
import { useMemo, useRef, useState } from "preact/hooks";
import { events, type Model, type Option, type Sentence } from "../api";
import { along, Note, replaceable, Switch, Tools } from "../parts";
import { count, language, named, reason, say } from "../say";
import { get, getNumber, link, set } from "../state";
import { digits, percent, span } from "../text";
import { Options, Sureness, sureness, useLater, useModel } from "./common";

interface Shown extends Sentence {
  /** Code points at the beginning that were asked for. */
  forced: number;
  done: boolean;
}

interface Place {
  sentence: number;
  word: number;
}

/** Texts to try in a language. */
function examples(language: string): string[] {
  const found = named("examples.", language);
  return found === language ? [] : found.split("|");
}

/** What a sentence is before anything of its translation is known. */
const begun = (start: number, source: string) => ({ start, source, text: "", tokens: [], alternatives: [], forced: 0, done: false }) as unknown as Shown;

export function Translate({ models }: { models: Model[] }) {
  const [model, picker] = useModel(models, "translate");
  const [sentences, setSentences] = useState<Shown[]>([]);
  const [read, setRead] = useState("");
  const [seconds, setSeconds] = useState(0);
  const [at, setAt] = useState<Place | null>(null);
  const [open, setOpen] = useState<Place | null>(null);
  const [undo, setUndo] = useState<Shown[][]>([]);
  const [failed, setFailed] = useState("");
  const text = get("text");
  const beams = getNumber("beams", 0);
  const penalty = get("penalty");
  const asked = {
    model: model?.name,
    attention: true,
    alternatives: Math.min(4, model?.limits.alternatives ?? 0),
    stream: true,
    ...(beams ? { num_beams: beams } : {}),
    ...(penalty && Number.isFinite(Number(penalty)) ? { length_penalty: Number(penalty) } : {}),
  };

  const [busy, wrong] = useLater(
    async (signal) => {
      if (!model || !text.trim()) {
        setSentences([]);
        setRead(text);
        return;
      }
      const began = performance.now();
      let made: Shown[] = [];
      for await (const [kind, told] of events("api/translate", { ...asked, text }, signal)) {
        if (kind === "sentences") made = told.map((one: Sentence) => begun(one.start, one.source));
        else made = follow(made, kind, told);
        if (kind === "sentences") {
          setAt(null);
          setOpen(null);
          setUndo([]);
          setRead(text);
        }
        setSentences(made);
        setSeconds((performance.now() - began) / 1000);
      }
    },
    [text, model?.name, beams, penalty],
  );

  const again = async (index: number, prefix: string) => {
    const before = sentences;
    setUndo([...undo, before]);
    setOpen(null);
    setFailed("");
    const own = before[index];
    const place = (next: Shown) => setSentences((now) => now.map((one, i) => (i === index ? next : one)));
    const forced = Array.from(prefix).length;
    let made: Shown[] = [{ ...begun(own.start, own.source), forced }];
    try {
      for await (const [kind, told] of events("api/translate", { ...asked, text: own.source, split: "no", prefix })) {
        made = follow(made, kind, told).map((one) => ({ ...one, start: own.start, forced }));
        place(made[0]);
      }
    } catch (error) {
      setSentences(before);
      setFailed(reason(error));
    }
  };
  const choose = (place: Place, option: Option) => {
    const own = sentences[place.sentence];
    const [start] = own.words!.target[place.word];
    again(place.sentence, span(own.text, 0, start).trimEnd() + option.text);
  };

  if (!model) return <Note>{say("no.model", { verb: say("page.translate") })}</Note>;
  const tokens = sentences.reduce((sum, one) => sum + one.tokens.length, 0);
  const marks = sentences.filter((one) => one.done);
  const near = at ?? open;
  return (
    <section class="desk" aria-label={say("page.translate")}>
      <Tools>
        {picker}
        <details class="more">
          <summary>{say("options")}</summary>
          <Tools>
            <label class="field"><span>{say("beams")}</span>
              <input type="number" min="1" max={model.limits.beams} value={beams || ""} placeholder={say("own")} onChange={(event) => set({ beams: event.currentTarget.value || null })} />
            </label>
            <label class="field"><span>{say("penalty")}</span>
              <input type="number" step="0.1" value={penalty} placeholder={say("own")} onChange={(event) => set({ penalty: event.currentTarget.value || null })} />
            </label>
            <Switch label={say("sureness")} on={get("sure", "1") === "1"} onChange={(on) => set({ sure: on ? null : "0" })} />
          </Tools>
        </details>
      </Tools>
      <div class="panes">
        <Source model={model} text={text} read={read} sentences={sentences} near={near} />
        <div class={"pane answer-pane" + (busy || read !== text ? " busy" : "")} lang={model.target ?? ""}>
          <div class="pane-head"><span>{model.target ?? say("translation")}</span>
            <span class="buttons">
              {undo.length > 0 && <button class="small" onClick={() => { setSentences(undo[undo.length - 1]); setUndo(undo.slice(0, -1)); }}>↶ {say("undo")}</button>}
              {sentences.length > 0 && <Copy text={whole(read, sentences)} />}
            </span>
          </div>
          <Answer {...{ read, sentences, at, open, setAt, setOpen }} sure={get("sure", "1") === "1"}
            menu={(place) => (
              <Options
                asked={{ model: model.name, text: sentences[place.sentence].source, prefix: span(sentences[place.sentence].text, 0, sentences[place.sentence].words!.target[place.word][0]) }}
                now={wordAt(sentences[place.sentence], place.word)}
                onChoose={(option) => choose(place, option)}
                onClose={() => { setOpen(null); document.querySelector<HTMLElement>(`[data-word="${place.sentence}.${place.word}"]`)?.focus(); }}
              />
            )}
          />
          {!text.trim() && <Note>{say("translate.empty")}</Note>}
          <p class="unseen" role="status">{busy ? say("loading") : ""}</p>
        </div>
      </div>
      {(wrong || failed) && <Note kind="wrong">{wrong || failed}</Note>}
      {!text.trim() && (
        <p class="examples">{say("try")} {examples(model.source ?? "en").map((one) => (
          <button class="plain" onClick={() => set({ text: one }, true)}>{one}</button>
        ))}</p>
      )}
      {marks.length > 0 && (
        <p class="status faint">
          {say("translate.status", { seconds: digits(seconds), tokens: count(tokens), rate: count(Math.round(tokens / Math.max(seconds, 1e-3))) })}
          {marks.some((one) => one.truncated) && <b class="wrong"> · {say("truncated")}</b>}
          {marks.some((one) => one.unknown > 0) && <b class="wrong"> · {say("unknown", { n: marks.reduce((sum, one) => sum + one.unknown, 0) })}</b>}
          {marks.some((one) => !one.finished) && <b class="wrong"> · {say("unfinished")}</b>}
        </p>
      )}
      {marks.length > 0 && get("sure", "1") === "1" && <Sureness />}
      {!model.alignment && <Note>{say("no.cross")}</Note>}
      <Best sentences={sentences} near={near} model={model} onTake={(index, text) => again(index, text)} />
    </section>
  );
}

function follow(made: Shown[], kind: string, told: any): Shown[] {
  if (kind === "piece") return made.map((one, i) => (i === told.sentence ? { ...one, text: one.text + told.text } : one));
  if (kind === "sentence") return made.map((one, i) => (i === told.sentence ? { ...told, start: one.start, forced: one.forced, done: true } : one));
  return made;
}

/** The whole translation, with the white space of the text around its sentences. */
function whole(read: string, sentences: Shown[]): string {
  let [found, end] = ["", 0];
  for (const one of sentences) {
    found += span(read, end, one.start) + one.text;
    end = one.start + Array.from(one.source).length;
  }
  return found + span(read, end);
}

function wordAt(sentence: Shown, word: number): string {
  const [start, end] = sentence.words!.target[word];
  return span(sentence.text, start, end);
}

function Copy({ text }: { text: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    } catch {
      setDone(false);
    }
  };
  return <button class="small" onClick={copy}>{say(done ? "copied" : "copy")}</button>;
}

/** The text box; behind it the same text with the looked-at words shaded. */
function Source(props: { model: Model; text: string; read: string; sentences: Shown[]; near: Place | null }) {
  const { text, read, sentences, near } = props;
  const behind = useRef<HTMLDivElement>(null);
  const parts = useMemo(() => {
    if (!near || read !== text) return [];
    const own = sentences[near.sentence];
    const weights = own?.words?.weights[near.word];
    if (!own?.words || !weights) return [];
    const found: [string, number][] = [];
    let end = 0;
    own.words.source.forEach(([from, to], i) => {
      found.push([span(text, end, own.start + from), 0]);
      found.push([span(text, own.start + from, own.start + to), weights[i]]);
      end = own.start + to;
    });
    return [...found, [span(text, end), 0] as [string, number]];
  }, [text, read, sentences, near]);
  return (
    <div class="pane" lang={props.model.source ?? ""}>
      <div class="pane-head"><span>{props.model.source ?? say("text")}</span>
        {text && <button class="small" onClick={() => set({ text: null })}>{say("clear")}</button>}
      </div>
      <div class="paper">
        <div class="behind" aria-hidden ref={behind}>
          {parts.map(([part, weight]) => (weight > 0.03 ? <mark style={{ "--share": weight }}>{part}</mark> : part))}
        </div>
        <textarea
          aria-label={say("translate.input")}
          value={text}
          maxLength={props.model.limits.characters}
          placeholder={say("translate.input")}
          spellcheck={false}
          onInput={(event) => set({ text: event.currentTarget.value || null })}
          onScroll={(event) => behind.current && (behind.current.scrollTop = event.currentTarget.scrollTop)}
        />
      </div>
    </div>
  );
}

function Answer(props: {
  read: string;
  sentences: Shown[];
  at: Place | null;
  open: Place | null;
  sure: boolean;
  setAt: (place: Place | null) => void;
  setOpen: (place: Place | null) => void;
  menu: (place: Place) => preact.JSX.Element;
}) {
  let end = 0;
  return (
    <div class="out" role="group" aria-label={say("translation")}>
      {props.sentences.map((sentence, s) => {
        const gap = span(props.read, end, sentence.start);
        end = sentence.start + Array.from(sentence.source).length;
        const own = Array.from(sentence.text);
        if (!sentence.done || !sentence.words) return <span class={sentence.done ? "" : "coming"}>{gap}{sentence.text}</span>;
        let to = 0;
        return (
          <span>
            {gap}
            {sentence.words.target.map(([from, until], w) => {
              const between = span(own, to, from);
              to = until;
              const logs = sentence.tokens.filter((token) => Math.min(token.end, until) > Math.max(token.start, from));
              const probability = Math.exp(logs.reduce((sum, token) => sum + token.log_prob, 0));
              const here = props.open?.sentence === s && props.open.word === w;
              const near = here || (props.at?.sentence === s && props.at.word === w);
              const word = span(own, from, until);
              return (
                <>
                  {between}
                  <span class="holder">
                    <span
                      role="button"
                      data-word={`${s}.${w}`}
                      class={"said" + (props.sure ? sureness(probability) : "") + (near ? " near" : "") + (until <= sentence.forced ? " forced" : "")}
                      tabIndex={(props.at ? near : s === 0 && w === 0) ? 0 : -1}
                      aria-haspopup="menu"
                      aria-expanded={here}
                      aria-label={`${word}, ${percent(probability)}${heard(sentence, w)}`}
                      onMouseEnter={() => !props.open && props.setAt({ sentence: s, word: w })}
                      onFocus={() => !props.open && props.setAt({ sentence: s, word: w })}
                      onClick={() => props.setOpen(here ? null : { sentence: s, word: w })}
                      onKeyDown={(event) => {
                        if (event.key === "Enter" || event.key === " ") {
                          props.setOpen({ sentence: s, word: w });
                          event.preventDefault();
                        } else if (event.key === "Escape") props.setAt(null);
                        else along(event, replaceable());
                      }}
                    >{word}</span>
                    {here && props.menu({ sentence: s, word: w })}
                  </span>
                </>
              );
            })}
            {span(own, to)}
          </span>
        );
      })}
      {span(props.read, end)}
    </div>
  );
}

/** For those who cannot see the shading: the word that was looked at most. */
function heard(sentence: Shown, word: number): string {
  const weights = sentence.words!.weights[word];
  if (!weights?.length) return "";
  const best = weights.indexOf(Math.max(...weights));
  const [start, end] = sentence.words!.source[best];
  return `. ${say("looks")} ${span(sentence.source, start, end)} ${percent(weights[best])}`;
}

function Best(props: { sentences: Shown[]; near: Place | null; model: Model; onTake: (sentence: number, text: string) => void }) {
  const last = useRef(0);
  if (props.near) last.current = props.near.sentence;
  const index = Math.min(last.current, props.sentences.length - 1);
  const own = props.sentences[index];
  if (!own?.done) return null;
  return (
    <section class="best">
      <h2>{props.sentences.length > 1 ? say("best.of", { n: index + 1 }) : say("best")}</h2>
      <ol>
        <li><bdi lang={props.model.target ?? ""}>{own.text}</bdi> <span class="faint">{percent(own.confidence)}</span>
          {props.model.inspects && (
            <a class="inside" href={link({ page: "inspect", model: props.model.name, text: own.source, target: own.text, view: "align", from: null })}>{say("look.inside")} →</a>
          )}
        </li>
        {own.alternatives.map((one) => (
          <li>
            <button class="plain" onClick={() => props.onTake(index, one.text)} lang={language() === "zh" ? undefined : (props.model.target ?? "")}><bdi>{one.text}</bdi></button>{" "}
            <span class="faint">{percent(one.confidence)}</span>
          </li>
        ))}
      </ol>
      <p class="faint">{say("confidence.about")}</p>
    </section>
  );
}
