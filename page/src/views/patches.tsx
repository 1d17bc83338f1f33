// Attention laid over the image that was read in patches.
import { useState } from "preact/hooks";
import { chosen, chosenHead, useLook, useWeights } from "../look";
import { Note, Numbers, Tools } from "../parts";
import { say } from "../say";
import { getNumber, set } from "../state";
import { digits, times } from "../text";
import { Pickers } from "./map";

export function Patches() {
  const { trace } = useLook();
  const attention = chosen(trace);
  const { weights } = useWeights(attention, attention ? chosenHead(trace, attention) : -1);
  const [under, setUnder] = useState(-1);
  const image = trace.image;
  if (!image || !attention) return <Note>{say("patches.none")}</Note>;
  const [down, across] = image.grid;
  const row = Math.max(0, Math.min(attention.size[0] - 1, getNumber("q", 0)));
  const before = attention.size[1] - down * across; // the marks before the patches
  const own = weights ? weights.subarray(row * attention.size[1], (row + 1) * attention.size[1]) : null;
  const most = own ? own.reduce((a, b, i) => (i >= before ? Math.max(a, b) : a), 0) : 0;
  const name = (place: number) => (place < before ? say("patches.whole") : say("patches.patch", { row: Math.floor((place - before) / across), column: (place - before) % across }));
  const rank = own ? Array.from(own, (value, i) => [value, i]).sort((a, b) => b[0] - a[0]) : [];
  return (
    <>
      <Tools><Pickers /><button aria-pressed={row < before} onClick={() => set({ q: 0 })}>{say("patches.whole")}</button></Tools>
      <figure class="photo">
        <img src={image.src} alt={say("patches.alt", { name: name(row) })} width={image.width} height={image.height} />
        <div class="patches" style={{ gridTemplateColumns: `repeat(${across}, 1fr)`, gridTemplateRows: `repeat(${down}, 1fr)` }} role="group" aria-label={say("view.patches")}>
          {own &&
            times(down * across, (i) => {
              const value = own[before + i];
              return (
                <button
                  class={"patch" + (row === before + i ? " held" : "")}
                  aria-pressed={row === before + i}
                  aria-label={`${name(before + i)}: ${digits(value)}`}
                  tabIndex={i === Math.max(0, row - before) ? 0 : -1}
                  style={{ background: `rgb(0 0 0 / ${(0.82 * (1 - value / (most || 1))).toFixed(3)})` }}
                  onMouseEnter={() => setUnder(before + i)}
                  onMouseLeave={() => setUnder(-1)}
                  onFocus={() => setUnder(before + i)}
                  onClick={() => set({ q: before + i })}
                  onKeyDown={(event) => {
                    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
                    const next = step && (event.currentTarget.parentElement!.children[i + step] as HTMLElement | undefined);
                    if (next) {
                      next.focus();
                      event.preventDefault();
                    }
                  }}
                />
              );
            })}
        </div>
      </figure>
      <p class="readout" aria-live="polite">
        {own && under >= 0 ? `${name(row)} ${say("looks")} ${name(under)}: ${digits(own[under])}` : say("patches.idle", { name: name(row) })}
        {own && before > 0 ? ` · ${say("patches.whole")}: ${digits(own[0])}` : ""}
      </p>
      {trace.classes && <p class="about-line">{trace.classes.slice(0, 3).map((one) => `${one.label} ${digits(one.p)}`).join(" · ")}</p>}
      <Numbers name={name(row)} head={["", say("weight")]} body={() => rank.map(([value, i]) => [name(i), value])} />
    </>
  );
}
