// Small parts that all views share.
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { DASHES, HEADS } from "./palette";
import { get, set } from "./state";
import { say, type Key } from "./say";
import { digits, percent, times, type Unit } from "./text";

export function Choice(props: {
  label: string;
  value: string;
  options: [string, string][];
  onChange: (value: string) => void;
}) {
  return (
    <label class="field">
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {props.options.map(([value, text]) => (
          <option value={value} selected={value === props.value}>{text}</option>
        ))}
      </select>
    </label>
  );
}

export function Switch(props: { label: string; on: boolean; onChange: (on: boolean) => void }) {
  return (
    <label class="switch">
      <input type="checkbox" checked={props.on} onChange={(event) => props.onChange(event.currentTarget.checked)} />
      <span>{props.label}</span>
    </label>
  );
}

/** What a view shows and does not show, and the formula behind it. */
export function About({ view }: { view: string }) {
  return (
    <div class="about">
      <p>{say(`${view}.about` as Key)}</p>
      <details>
        <summary>{say("formula")}</summary>
        <p class="formula">{say(`${view}.formula` as Key)}</p>
      </details>
    </div>
  );
}

/** A list of shares as bars. */
export function Bars(props: {
  name: string;
  items: { label: string; value: number; note?: string; mark?: boolean }[];
  most?: number;
}) {
  const most = props.most ?? Math.max(1e-9, ...props.items.map((item) => Math.abs(item.value)));
  return (
    <ol class="bars" aria-label={props.name}>
      {props.items.map((item) => (
        <li class={item.mark ? "bar marked" : "bar"}>
          <bdi class="bar-label">{item.label}</bdi>
          <span class="bar-track" aria-hidden>
            <span class={item.value < 0 ? "bar-fill less" : "bar-fill"} style={{ width: (100 * Math.abs(item.value)) / most + "%" }} />
          </span>
          <span class="bar-value">{item.note ?? percent(item.value)}</span>
        </li>
      ))}
    </ol>
  );
}

/** How the lines of a head look. */
export const dash = (head: number) => ({ stroke: HEADS[head % 8], "stroke-dasharray": DASHES[head % 8] });

export const Dash = ({ head }: { head: number }) => (
  <svg width="26" height="6" aria-hidden><path d="M1 3H25" stroke-width="3" {...dash(head)} /></svg>
);

/** The table beside a picture; made only while it is open. */
export function Numbers(props: { name: string; head: string[]; body: () => (string | number)[][] }) {
  const open = get("table") === "1";
  return (
    <details class="numbers" open={open} onToggle={(event) => set({ table: event.currentTarget.open ? "1" : null })}>
      <summary>{say("table")}</summary>
      {open && <Sheet {...props} body={props.body()} />}
    </details>
  );
}

export function Sheet(props: { name: string; head: string[]; body: (string | number)[][] }) {
  const id = useId();
  const save = () => {
    const quote = (cell: string | number) => `"${String(cell).replace(/"/g, '""')}"`;
    const lines = [props.head, ...props.body].map((row) => row.map(quote).join(","));
    download("regard.csv", new Blob(["\ufeff" + lines.join("\r\n")], { type: "text/csv;charset=utf-8" }));
  };
  return (
    <>
      <button class="small" onClick={save}>{say("csv")}</button>
      <div class="sheet" tabIndex={0} role="region" aria-labelledby={id}>
        <table>
          <caption id={id}>{props.name}</caption>
          <thead>
            <tr>{props.head.map((cell) => <th scope="col"><bdi>{cell}</bdi></th>)}</tr>
          </thead>
          <tbody>
            {props.body.map(([first, ...rest]) => (
              <tr>
                <th scope="row"><bdi>{first}</bdi></th>
                {rest.map((cell) => <td><bdi>{typeof cell === "number" ? digits(cell) : cell}</bdi></td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** The table of a matrix: whole where it is small, else the highest of each row. */
export function matrixTable(rows: Unit[], columns: Unit[], values: Float32Array): { head: string[]; body: () => (string | number)[][] } {
  const width = columns.length;
  if (width <= 40 && rows.length <= 200) {
    return {
      head: ["", ...columns.map((column) => column.label)],
      body: () => rows.map((row, r) => [row.label, ...Array.from(values.subarray(r * width, (r + 1) * width))]),
    };
  }
  const best = 6;
  return {
    head: ["", ...times(best, (i) => say("rank", { n: i + 1 }))],
    body: () =>
      rows.map((row, r) => {
        const own = Array.from(values.subarray(r * width, (r + 1) * width), (value, c) => [value, c]);
        own.sort((a, b) => b[0] - a[0]);
        return [row.label, ...own.slice(0, best).map(([value, c]) => `${columns[c].label} ${digits(value)}`)];
      }),
  };
}

/** Arrows move the focus along a row of elements. */
export function along(event: KeyboardEvent, row: Iterable<HTMLElement | SVGElement>): void {
  const all = Array.from(row);
  const step = /Arrow(Right|Down)/.test(event.key) ? 1 : /Arrow(Left|Up)/.test(event.key) ? -1 : 0;
  const next = step && all[all.indexOf(event.currentTarget as HTMLElement) + step];
  if (!next) return;
  next.focus();
  event.preventDefault();
}

/** What makes a part of a drawing something that keys reach and press, among those of one class. */
export const pressed = (kind: string, first: boolean, press: () => void) => ({
  role: "button" as const,
  tabindex: first ? 0 : -1, // as SVG spells it
  onClick: press,
  onKeyDown: (event: KeyboardEvent) => {
    along(event, document.querySelectorAll<SVGElement>(kind));
    if (event.key !== "Enter" && event.key !== " ") return;
    press();
    event.preventDefault();
  },
});

/** All words that can be replaced, on a page that has such. */
export const replaceable = () => document.querySelectorAll<HTMLElement>("[data-word]");

export function Note({ children, kind = "" }: { children: ComponentChildren; kind?: string }) {
  return <p class={"note " + kind} role={kind === "wrong" ? "alert" : undefined}>{children}</p>;
}

export function download(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

export const Tools = ({ children }: { children: ComponentChildren }) => <div class="tools">{children}</div>;

/** A figure with its name, in a list of such. */
export const Fact = ({ name, children }: { name: string; children: ComponentChildren }) => <div><dt>{name}</dt><dd>{children}</dd></div>;

export const Wait = () => <p class="note" aria-busy>{say("loading")}</p>;

/** What scrolls on its own, by keys too. */
export const Scroll = ({ name, kind = "sheet", children }: { name: string; kind?: string; children: ComponentChildren }) => (
  <div class={kind} tabIndex={0} role="region" aria-label={name}>{children}</div>
);
