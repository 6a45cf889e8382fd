/**
 * The panel's icons.
 *
 * Purpose: outlines on a grid of 16, drawn in the colour of the text beside them.
 * Invariant: each is one path; nothing is loaded.
 * Must never: be chosen by a name that came from data without a fallback.
 */

const PATHS: Readonly<Record<string, string>> = {
  check: "M3 8.6l3.2 3.2L13 4.8",
  checkall: "M1.5 8.6l3 3 6.3-6.8M7.6 11.2l.6.5L14.6 4.8",
  close: "M4 4l8 8M12 4l-8 8",
  cr: "M6 4l4 4-4 4",
  cd: "M4 6l4 4 4-4",
  shield: "M8 1.7l5.2 1.9v4c0 3.2-2.2 5.5-5.2 6.7-3-1.2-5.2-3.5-5.2-6.7v-4z",
  term: "M3 2.5h10a1.5 1.5 0 0 1 1.5 1.5v8a1.5 1.5 0 0 1 -1.5 1.5h-10a1.5 1.5 0 0 1 -1.5 -1.5v-8a1.5 1.5 0 0 1 1.5 -1.5zM4.2 6l2.2 2-2.2 2M8 10.5h3.8",
  file: "M3.5 1.5h6L12.5 4.6v9.9h-9zM9.3 1.7v3.1h3",
  search: "M2.5 7a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0M10.4 10.4L14 14",
  pencil: "M11.2 2.4l2.4 2.4-8.2 8.2-3 .6.6-3zM9.6 4l2.4 2.4",
  beaker: "M5 1.5h6M6 1.5v4.7L2.7 12.7c-.5.9.1 1.8 1 1.8h8.6c.9 0 1.5-.9 1-1.8L10 6.2V1.5M4.6 9.5h6.8",
  globe: "M1.5 8a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0 -13 0M1.5 8h13M8 1.5c2.2 2 3 4.1 3 6.5s-.8 4.5-3 6.500c-2.2-2-3-4.1-3-6.500s.8-4.5 3-6.500z",
  lock: "M4.5 7h7a1 1 0 0 1 1 1v5a1 1 0 0 1 -1 1h-7a1 1 0 0 1 -1 -1v-5a1 1 0 0 1 1 -1zM5.5 7V4.800a2.5 2.5 0 015 0V7",
  stop: "M5 4h6a1 1 0 0 1 1 1v6a1 1 0 0 1 -1 1h-6a1 1 0 0 1 -1 -1v-6a1 1 0 0 1 1 -1z",
  plus: "M8 3v10M3 8h10",
  more: "M2.5 8a1 1 0 1 0 2 0a1 1 0 1 0 -2 0M7 8a1 1 0 1 0 2 0a1 1 0 1 0 -2 0M11.5 8a1 1 0 1 0 2 0a1 1 0 1 0 -2 0",
  history: "M2.6 5.300A6.2 6.2 0 112 8.600M2.5 2.200v3.300h3.300M8 4.700V8l2.5 1.6",
  plan: "M7.5 4h6.500M7.5 8h6.500M7.5 12h6.500M2 4l1 1 2-2M2 8l1 1 2-2M2.5 12h2",
  eye: "M1.5 8C3 5.2 5.3 3.7 8 3.700s5 1.5 6.5 4.300c-1.5 2.8-3.8 4.3-6.5 4.300S3 10.8 1.5 8zM6 8a2 2 0 1 0 4 0a2 2 0 1 0 -4 0",
  warnt: "M8 2l6.3 11.500H1.700zM8 6.300v3.6M7.6 11.7a0.4 0.4 0 1 0 0.8 0a0.4 0.4 0 1 0 -0.8 0",
  info: "M1.5 8a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0 -13 0M8 7.300v4M7.6 5a0.4 0.4 0 1 0 0.8 0a0.4 0.4 0 1 0 -0.8 0",
  unknown:
    "M1.5 8a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0 -13 0M6.2 6.300c.1-1.1.8-1.7 1.8-1.700s1.8.6 1.8 1.600c0 1.4-1.8 1.5-1.8 2.9M7.6 11.4a0.4 0.4 0 1 0 0.8 0a0.4 0.4 0 1 0 -0.8 0",
  block: "M2 8a6 6 0 1 0 12 0a6 6 0 1 0 -12 0M3.8 3.800l8.4 8.4",
  spin: "M8 2.500A5.5 5.5 0 112.5 8",
  ring: "M4.5 8a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0",
  errc: "M2 8a6 6 0 1 0 12 0a6 6 0 1 0 -12 0M5.8 5.800l4.4 4.400M10.2 5.800l-4.4 4.4",
  okc: "M2 8a6 6 0 1 0 12 0a6 6 0 1 0 -12 0M5.2 8.300l2 2 3.6-4.2",
  undo: "M3 6h6.200a3.6 3.6 0 010 7.200H6M5.8 3L2.9 6l2.9 3",
  diff: "M8 2.500v6M5 5.500h6M5 12.500h6",
  goto: "M6 3.500H3v9.500h9.500v-3M9 3h4v4M13 3L7.5 8.5",
  clock: "M2 8a6 6 0 1 0 12 0a6 6 0 1 0 -12 0M8 4.500V8l2.3 1.5",
  box: "M8 1.700l5.7 3v6.600l-5.7 3-5.7-3V4.700zM2.5 4.800L8 7.700l5.5-2.900M8 7.700v6.4",
  copy: "M6.5 5.5h6a1 1 0 0 1 1 1v6.5a1 1 0 0 1 -1 1h-6a1 1 0 0 1 -1 -1v-6.5a1 1 0 0 1 1 -1zM10.5 5.300V2.500h-8v8.500h2.8",
  up: "M8 13V3M3.8 7.200L8 3l4.2 4.2",
  down: "M8 3v10M3.8 8.800L8 13l4.2-4.2",
  branch:
    "M2.9 3.5a1.6 1.6 0 1 0 3.2 0a1.6 1.6 0 1 0 -3.2 0M2.9 12.5a1.6 1.6 0 1 0 3.2 0a1.6 1.6 0 1 0 -3.2 0M9.9 5a1.6 1.6 0 1 0 3.2 0a1.6 1.6 0 1 0 -3.2 0M4.5 5.100v5.800M11.5 6.600c0 2.6-3.5 2.2-6.2 4",
  snap: "M8 2l6 3-6 3-6-3zM2 8l6 3 6-3M2 11l6 3 6-3",
  key: "M2 8a3 3 0 1 0 6 0a3 3 0 1 0 -6 0M8 8h6.500M12 8v2.500M14.3 8v1.8",
  plug: "M5.5 1.800v3M10.5 1.800v3M3.5 5h9v2.500a4.5 4.5 0 01-9 0zM8 12v2.5",
  send: "M2.5 8L1.8 2.3 14.5 8 1.8 13.700zM2.5 8h6",
  link: "M6.5 9.500l3-3M7.2 4.600l1.6-1.600a3 3 0 014.2 4.200l-1.6 1.600M8.8 11.400l-1.6 1.600A3 3 0 013 8.800l1.6-1.6",
  trash: "M2.5 4h11M6 4V2.500h4V4M4 4l.7 10h6.600L12 4M6.7 6.500v5M9.3 6.500v5",
  refresh: "M13 5A5.8 5.8 0 102.3 9M13.3 2v3.300H10",
  fork: "M2.4 3.5a1.6 1.6 0 1 0 3.2 0a1.6 1.6 0 1 0 -3.2 0M10.4 3.5a1.6 1.6 0 1 0 3.2 0a1.6 1.6 0 1 0 -3.2 0M6.4 12.5a1.6 1.6 0 1 0 3.2 0a1.6 1.6 0 1 0 -3.2 0M4 5.100c0 3 4 2.4 4 5.800M12 5.100c0 3-4 2.4-4 5.8",
};

const SVG = "http://www.w3.org/2000/svg";

/** An icon; `label` names it for a screen reader, without one it is decoration. */
export function icon(name: string, className = "", label = ""): SVGSVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", `i ${className}`.trim());
  if (label === "") {
    svg.setAttribute("aria-hidden", "true");
  } else {
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
  }
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name] ?? PATHS["box"] ?? "");
  svg.append(path);
  return svg;
}
