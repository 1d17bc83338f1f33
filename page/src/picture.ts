// The picture of a view as a file: a drawing as it is, or the part of a heat map that is shown, or as SVG all of it.
import { drawings } from "./heat";

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "text-anchor"];

/** A drawing on its own, with the colours that the style sheet gives it. */
function standalone(drawing: SVGSVGElement): string {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const [from, to] = [drawing.querySelectorAll("*"), copy.querySelectorAll("*")];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of STYLES) to[i].setAttribute(name, style.getPropertyValue(name));
    to[i].removeAttribute("class");
  });
  const bounds = drawing.getBoundingClientRect();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(Math.round(bounds.width)));
  copy.setAttribute("height", String(Math.round(bounds.height)));
  if (!copy.hasAttribute("viewBox")) copy.setAttribute("viewBox", `0 0 ${bounds.width} ${bounds.height}`);
  const back = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  back.setAttribute("width", "100%");
  back.setAttribute("height", "100%");
  back.setAttribute("fill", ground());
  copy.prepend(back);
  return new XMLSerializer().serializeToString(copy);
}

/** The colour of the page. */
const ground = () => getComputedStyle(document.documentElement).getPropertyValue("--ground") || "white";

const blobOf = (canvas: HTMLCanvasElement) => new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));

/** The first picture inside an element as a file; null if there is none. */
export async function picture(inside: HTMLElement, kind: "svg" | "png"): Promise<Blob | null> {
  const canvas = inside.querySelector<HTMLCanvasElement>(".heat-frame canvas");
  const drawing = inside.querySelector<SVGSVGElement>("svg.web, svg.tree, svg.curves");
  if (canvas && !drawing) {
    const flat = document.createElement("canvas");
    [flat.width, flat.height] = [canvas.width, canvas.height];
    const pen = flat.getContext("2d")!;
    pen.fillStyle = ground();
    pen.fillRect(0, 0, flat.width, flat.height);
    pen.drawImage(canvas, 0, 0);
    if (kind === "png") return blobOf(flat);
    return new Blob([drawings.get(canvas.parentElement!)!()], { type: "image/svg+xml" });
  }
  if (!drawing) return null;
  const text = standalone(drawing);
  if (kind === "svg") return new Blob([text], { type: "image/svg+xml" });
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  await image.decode();
  const flat = document.createElement("canvas");
  [flat.width, flat.height] = [image.width * 2, image.height * 2];
  flat.getContext("2d")!.drawImage(image, 0, 0, flat.width, flat.height);
  return blobOf(flat);
}
