// Every head of every layer as a thumbnail; the one that is picked is drawn large below.
import { useEffect, useRef, useState } from "preact/hooks";
import { useBlocks } from "../blocks";
import { chosen, chosenHead, groupOf, palette, useLook } from "../look";
import { paint, scaleOf } from "../palette";
import { Choice, Note, Numbers, Tools } from "../parts";
import { named, say } from "../say";
import { get, set } from "../state";
import { digits, times } from "../text";
import { theme } from "../theme";
import type { Attention } from "../trace";
import { AttentionMap, Group, Looks } from "./map";

interface Thumb {
  attention: Attention;
  head: number;
  block: string;
  from: number;
  size: [number, number];
}

const SORTS = ["", "entropy", "distance", "sink", "importance"] as const;

function thumbs(attentions: Attention[]): Thumb[] {
  return attentions.flatMap((attention) =>
    times(attention.heads, (head): Thumb | null => {
      const own = attention.weights[head];
      const { overview } = attention;
      if (overview) return { attention, head, block: overview.max, from: head * overview.size[0] * overview.size[1], size: overview.size };
      return own === undefined ? null : { attention, head, block: own, from: 0, size: attention.size };
    }).filter((one): one is Thumb => one !== null),
  );
}

function Picture({ thumb }: { thumb: Thumb }) {
  const { blocks } = useLook();
  const found = useBlocks(blocks, [thumb.block]);
  const canvas = useRef<HTMLCanvasElement>(null);
  const now = theme();
  const colours = palette();
  useEffect(() => {
    const own = canvas.current;
    if (!own || !found) return;
    const [height, width] = thumb.size;
    const values = found[0]!.subarray(thumb.from, thumb.from + height * width);
    paint(own, thumb.size, values, scaleOf(colours, values, "most"), now);
  }, [found === undefined, thumb.block, thumb.from, now, colours]);
  return <canvas ref={canvas} aria-hidden />;
}

export function Grid() {
  const { trace } = useLook();
  const [later, setLater] = useState(false); // the thumbnails are drawn first
  useEffect(() => void setTimeout(() => setLater(true), 50), []);
  const attention = chosen(trace);
  if (!attention) return <Note>{say("no.attention")}</Note>;
  const group = groupOf(attention);
  const layers = trace.attentions.filter((one) => groupOf(one) === group);
  const sort = get("sort");
  const head = chosenHead(trace, attention);
  const figure = (thumb: Thumb, name: string): number =>
    (thumb.attention as unknown as Record<string, number[] | null>)[name]?.[thumb.head] ?? NaN;
  const all = thumbs(layers);
  if (sort) all.sort((a, b) => (figure(b, sort) || 0) - (figure(a, sort) || 0));
  const columns = sort ? Math.min(12, Math.max(...layers.map((one) => one.heads))) : Math.max(...layers.map((one) => one.heads));
  const best = trace.alignment;
  return (
    <>
      <Tools>
        <Group group={group} />
        <Choice
          label={say("sort")}
          value={sort}
          options={SORTS.map((one) => [one, named("sort.", one || "layer")])}
          onChange={(one) => set({ sort: one || null })}
        />
        <Looks />
      </Tools>
      <div class="grid-frame">
        <div class="grid" style={{ gridTemplateColumns: `repeat(${columns}, minmax(54px, 1fr))` }} role="group" aria-label={named("group.", group)}>
          {all.map((thumb) => {
            const on = thumb.attention === attention && thumb.head === head;
            const star = best?.attention === thumb.attention.name && best.head === thumb.head;
            const name = `${say("layer")} ${thumb.attention.layer}, ${say("head")} ${thumb.head}`;
            return (
              <button
                class="thumb"
                aria-pressed={on}
                title={`${name} · ${say("entropy")} ${digits(thumb.attention.entropy[thumb.head])}`}
                aria-label={`${thumb.attention.layer}.${thumb.head}${star ? " ★" : ""}: ${name}${sort ? `, ${digits(figure(thumb, sort))}` : ""}`}
                onClick={() => set({ kind: group, layer: thumb.attention.layer, head: thumb.head })}
              >
                <Picture thumb={thumb} />
                <span>{thumb.attention.layer}.{thumb.head}{star ? " ★" : ""}{sort ? <small> {digits(figure(thumb, sort))}</small> : null}</span>
              </button>
            );
          })}
        </div>
      </div>
      <Numbers
        name={say("view.grid")}
        head={["", say("entropy"), say("distance"), say("sink"), say("importance")]}
        body={() => all.map((thumb) => [`${thumb.attention.layer}.${thumb.head}`, ...SORTS.slice(1).map((name) => (Number.isNaN(figure(thumb, name)) ? "–" : figure(thumb, name)))])}
      />
      {later && <AttentionMap />}
    </>
  );
}
