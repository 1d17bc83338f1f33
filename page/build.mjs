// Bundles src/ into the files that the Python package carries. An argument names another folder to write to.
import { build } from "esbuild";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const output = process.argv[2] ?? join(here, "../src/regard/page");
const LARGEST = 100_000; // bytes of the script

await build({
  entryPoints: { inspector: join(here, "src/main.tsx") },
  outdir: output,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  tsconfigRaw: {},
  jsx: "transform", // shorter than the automatic one
  jsxFactory: "h",
  jsxFragment: "Fragment",
  inject: [join(here, "src/jsx.ts")],
  logLevel: "warning",
});

const words = Object.fromEntries(["en", "zh"].map((name) => [name, JSON.parse(readFileSync(join(here, `src/${name}.json`), "utf8"))]));
const data = JSON.stringify(words).replaceAll("<", "\\u003c");
writeFileSync(join(output, "words.json"), data + "\n");
const page = readFileSync(join(here, "src/index.html"), "utf8");
writeFileSync(join(output, "index.html"), page.replace("WORDS", () => data));

const size = statSync(join(output, "inspector.js")).size;
console.log(`inspector.js: ${size} bytes of at most ${LARGEST}`);
if (size > LARGEST) process.exit(1);
