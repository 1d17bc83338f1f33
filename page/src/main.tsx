import "./main.css";
// Where the page begins: a file with a trace inside shows that; a page of the server shows what the server can do.
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { models as ask, Refusal, useKey, type Model } from "./api";
import { Blocks } from "./blocks";
import { Inspector } from "./inspector";
import type { Looked } from "./look";
import { held } from "./open";
import { Classify } from "./pages/classify";
import { Generate } from "./pages/generate";
import { Look } from "./pages/look";
import { Translate } from "./pages/translate";
import { Note, Switch } from "./parts";
import { language, named, say, type Key } from "./say";
import { get, link, remember, set, useAddress } from "./state";
import { theme, turn, useTheme } from "./theme";

const KEYS = ["[ ]", ", .", "a", "w", "s", "t", "d", "e", "n p", "/", "?", "← ↑ → ↓", "Home End", "Enter", "Esc"];

function Keys({ open, onClose }: { open: boolean; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open && !dialog.current?.open) dialog.current?.showModal();
  }, [open]);
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="keys-title">
      <h2 id="keys-title">{say("keys")}</h2>
      <dl class="keys">
        {KEYS.map((key) => <div><dt>{key.split(" ").map((one) => <kbd>{one}</kbd>)}</dt><dd>{say(`keys.${key}` as Key)}</dd></div>)}
      </dl>
      <Switch label={say("keys.on")} on={get("keys") !== "off"} onChange={(on) => set({ keys: on ? null : "off" })} />
      <form method="dialog"><button class="main">{say("close")}</button></form>
    </dialog>
  );
}

function Head({ pages, page, showKeys }: { pages: string[]; page: string; showKeys: () => void }) {
  const other = language() === "zh" ? "en" : "zh";
  return (
    <header class="top">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>{say("skip")}</a>
      <span class="brand">
        <svg width="30" height="20" viewBox="0 0 30 20" aria-hidden><path d="M1 10C8 0 22 0 29 10C22 20 8 20 1 10Z" fill="none" stroke="currentColor" stroke-width="2" /><circle cx="15" cy="10" r="4.6" fill="var(--accent)" /></svg>
        regard
      </span>
      {pages.length > 1 && (
        <nav class="pages" aria-label={say("pages")}>
          {pages.map((name) => <a href={link({ page: name, target: null, trace: null, view: null, q: null, k: null })} aria-current={name === page ? "page" : undefined}>{named("page.", name)}</a>)}
        </nav>
      )}
      <span class="buttons">
        <button lang={other === "zh" ? "zh-CN" : "en"} onClick={() => { remember("lang", other); set({ lang: other }); }}>{other === "zh" ? "中文" : "English"}</button>
        <button onClick={turn} aria-label={say(theme() === "dark" ? "to.light" : "to.dark")}>{theme() === "dark" ? "☀" : "☾"}</button>
        <button onClick={showKeys} aria-label={say("keys")}>?</button>
      </span>
    </header>
  );
}

function Ask({ onKey, wrong }: { onKey: (key: string) => void; wrong: string }) {
  const [key, setKey] = useState("");
  return (
    <form class="ask" onSubmit={(event) => { event.preventDefault(); onKey(key); }}>
      <label class="field wide"><span>{say("key.ask")}</span><input type="password" autocomplete="off" value={key} onInput={(event) => setKey(event.currentTarget.value)} /></label>
      <button type="submit" class="main">{say("key.send")}</button>
      {wrong && <Note kind="wrong">{wrong}</Note>}
    </form>
  );
}

function Served({ page, models, showKeys }: { page: string; models: Model[]; showKeys: () => void }) {
  if (page === "inspect") return <Look models={models} showKeys={showKeys} />;
  if (page === "classify") return <Classify models={models} />;
  if (page === "generate") return <Generate models={models} />;
  return <Translate models={models} />;
}

const PAGES = ["translate", "generate", "classify"];

const fallback = document.getElementById("fallback"); // only a file has it

function App() {
  useAddress();
  useTheme();
  // null: no file, a server's page; undefined: on its way; text: what is wrong with it
  const [file, setFile] = useState<Looked | string | null | undefined>(fallback ? undefined : null);
  const [models, setModels] = useState<Model[] | null>(null);
  const [wrong, setWrong] = useState<Error | null>(null);
  const [keys, setKeys] = useState(false);
  const [tried, setTried] = useState(false);
  const load = () => ask().then((found) => { setModels(found); setWrong(null); }, setWrong);
  useEffect(() => {
    if (!fallback) return void load();
    fallback.hidden = true;
    held(document).then(
      (trace) => setFile({ trace, blocks: new Blocks(trace), server: null }),
      (error) => {
        fallback.hidden = false;
        setFile(error.message);
      },
    );
  }, []);
  const pages = models ? [...PAGES.filter((page) => models.some((one) => one.can.includes(page))), ...(models.some((one) => one.inspects) ? ["inspect"] : [])] : [];
  const told = get("page");
  const page = pages.includes(told) ? told : (pages[0] ?? "translate");
  const lang = language();
  useEffect(() => {
    document.documentElement.lang = lang === "zh" ? "zh-CN" : "en";
    document.title = file === null ? `${named("page.", page)} · regard` : `regard · ${typeof file === "object" ? file.trace.model.name : ""}`;
  });
  return (
    <>
      <Head pages={pages} page={page} showKeys={() => setKeys(true)} />
      <main id="main" tabIndex={-1}>
        <h1 class="unseen">{file === null ? named("page.", page) : say("page.inspect")}</h1>
        {typeof file === "string" && <Note kind="wrong">{file}</Note>}
        {file && typeof file === "object" && <Inspector {...file} showKeys={() => setKeys(true)} />}
        {wrong instanceof Refusal && wrong.status === 401 && <Ask onKey={(key) => { useKey(key); setTried(key !== ""); load(); }} wrong={tried ? wrong.message : ""} />}
        {wrong && !(wrong instanceof Refusal && wrong.status === 401) && <Note kind="wrong">{wrong.message}</Note>}
        {file === null && models && pages.length === 0 && <Note>{say("no.pages")}</Note>}
        {file === null && models && pages.length > 0 && <Served page={page} models={models} showKeys={() => setKeys(true)} />}
      </main>
      <Keys open={keys} onClose={() => setKeys(false)} />
    </>
  );
}

const root = document.getElementById("app");
if (root) render(<App />, root);
