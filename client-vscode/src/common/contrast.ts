/**
 * How well a colour is seen on others.
 *
 * Purpose: read a colour as a page computed it, lay colours over one another, and say their contrast.
 * Invariant: contrast is that of WCAG, from 1 to 21.
 * Must never: call a colour that it cannot read a good one.
 */

/** Red, green, blue and opacity, each from 0 to 1. */
export type Colour = readonly [number, number, number, number];

const WHITE: Colour = [1, 1, 1, 1];
const NUMBERS = /-?\d+(?:\.\d+)?(?:e-?\d+)?/g;

/** `rgb(…)`, `rgba(…)` or `color(srgb …)`; null for anything else. */
export function readColour(computed: string): Colour | null {
  const scale = /^rgba?\(/.test(computed) ? 255 : computed.startsWith("color(srgb ") ? 1 : null;
  const [red, green, blue, opacity = 1] = (computed.match(NUMBERS) ?? []).map(Number);
  return scale === null || red === undefined || green === undefined || blue === undefined
    ? null
    : [red / scale, green / scale, blue / scale, opacity];
}

function over([red, green, blue, opacity]: Colour, below: Colour): Colour {
  const mix = (top: number, under: number): number => top * opacity + under * (1 - opacity);
  return [mix(red, below[0]), mix(green, below[1]), mix(blue, below[2]), 1];
}

function luminance(colour: Colour): number {
  const [red, green, blue] = colour.slice(0, 3).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * (red ?? 0) + 0.7152 * (green ?? 0) + 0.0722 * (blue ?? 0);
}

/** Contrast of a text on what lies below it, from the bottom up; 1 where a colour can't be read. */
export function contrastOn(text: string, layers: readonly string[]): number {
  let below = WHITE;
  for (const layer of layers) {
    const colour = readColour(layer);
    if (colour === null) {
      return 1;
    }
    below = over(colour, below);
  }
  const colour = readColour(text);
  if (colour === null) {
    return 1;
  }
  const [one, other] = [luminance(over(colour, below)), luminance(below)];
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
}
