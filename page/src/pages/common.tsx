// What the pages that ask the server share: which model, running requests, words that can be replaced.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Model, Option } from "../api";
import { post } from "../api";
import { Choice, Note, Wait } from "../parts";
import { reason, say } from "../say";
import { get, set } from "../state";
import { percent, visible } from "../text";

export function useModel(models: Model[], verb: string): [Model | undefined, preact.JSX.Element | null] {
  const able = models.filter((one) => one.can.includes(verb));
  const model = able.find((one) => one.name === get("model")) ?? able[0];
  if (!model) return [undefined, null];
  const name = (one: Model) => (one.source && one.target ? `${one.name} (${one.source} → ${one.target})` : one.name);
  const picker = <Choice label={say("model")} value={model.name} options={able.map((one) => [one.name, name(one)])} onChange={(one) => set({ model: one })} />;
  return [model, picker];
}

/** Run something a moment after its reasons changed, and stop what runs when they change again. */
export function useLater(run: (signal: AbortSignal) => Promise<void>, reasons: unknown[], delay = 350): [boolean, string] {
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState("");
  const first = useRef(true);
  useEffect(() => {
    const stop = new AbortController();
    const wait = first.current ? 0 : delay;
    first.current = false;
    const timer = setTimeout(async () => {
      setBusy(true);
      try {
        await run(stop.signal);
        if (!stop.signal.aborted) setWrong("");
      } catch (error) {
        if (!stop.signal.aborted) setWrong(reason(error));
      } finally {
        if (!stop.signal.aborted) setBusy(false);
      }
    }, wait);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, reasons);
  return [busy, wrong];
}

/** A menu of what else could stand in a place. */
export function Options(props: {
  asked: { model: string; text: string; prefix: string };
  now: string;
  onChoose: (option: Option) => void;
  onClose: () => void;
}) {
  const [options, setOptions] = useState<Option[] | null>(null);
  const [wrong, setWrong] = useState("");
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const stop = new AbortController();
    post<{ words: Option[] }>("api/words", { ...props.asked, count: 8 }, stop.signal).then(
      (found) => setOptions(found.words),
      (error) => !stop.signal.aborted && setWrong(error.message),
    );
    return () => stop.abort();
  }, [props.asked.text, props.asked.prefix, props.asked.model]);
  useLayoutEffect(() => {
    const own = list.current!;
    own.style.left = "0px";
    const over = own.getBoundingClientRect().right - document.documentElement.clientWidth + 8;
    if (over > 0) own.style.left = -over + "px";
    own.querySelector<HTMLElement>("button:not(:disabled)")?.focus({ preventScroll: true });
    own.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [options]);
  useEffect(() => {
    const outside = (event: MouseEvent) => {
      if (!list.current?.contains(event.target as Node)) props.onClose();
    };
    addEventListener("mousedown", outside);
    return () => removeEventListener("mousedown", outside);
  });
  const move = (event: KeyboardEvent) => {
    const all = Array.from(list.current!.querySelectorAll<HTMLElement>("button:not(:disabled)"));
    const at = all.indexOf(document.activeElement as HTMLElement);
    if (event.key === "Escape" || event.key === "Tab") {
      props.onClose();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      all[(at + (event.key === "ArrowDown" ? 1 : -1) + all.length) % all.length]?.focus();
    } else if (event.key === "Home" || event.key === "End") {
      all[event.key === "Home" ? 0 : all.length - 1]?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="menu" role="menu" aria-label={say("alternatives")} ref={list} onKeyDown={move} aria-busy={!options && !wrong}>
      {wrong && <Note kind="wrong">{wrong}</Note>}
      {!options && !wrong && <Wait />}
      {options?.filter((one, i) => i < 4 || one.probability >= 0.001).map((one) => {
        const same = one.text.trim() === props.now;
        return (
          <button role="menuitem" class={same ? "now" : ""} disabled={one.end} onClick={() => props.onChoose(one)}>
            <bdi>{one.end ? say("end.here") : visible(one.text.trim() || one.text)}</bdi>
            <span class="meter" aria-hidden><span style={{ width: 100 * one.probability + "%" }} /></span>
            <small>{percent(one.probability)}</small>
          </button>
        );
      })}
    </div>
  );
}

/** How sure the model was, as one of four looks that differ by more than colour. */
export function sureness(probability: number): string {
  return probability >= 0.8 ? "" : probability >= 0.5 ? " fair" : probability >= 0.2 ? " unsure" : " guess";
}

export function Sureness() {
  return (
    <p class="sureness faint">
      <span class="out"><span class="said fair">{say("sure.fair")}</span></span>
      <span class="out"><span class="said unsure">{say("sure.unsure")}</span></span>
      <span class="out"><span class="said guess">{say("sure.guess")}</span></span>
    </p>
  );
}
