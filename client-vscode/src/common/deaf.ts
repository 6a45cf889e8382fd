/**
 * When a card does not hear.
 *
 * Purpose: keys and clicks that come right after a card appeared or moved were meant for something else.
 * Invariant: whatever is seen to have moved is deaf again from that moment on, also when it is seen with the click itself.
 * Must never: take a moment that nobody looked at for one of rest.
 */

export const DEAF_MS = 600;
/** How often a card that waits looks where it stands. */
export const LOOK_MS = 100;
/** What moves by less, by the rounding of a layout, stands still. */
const STILL_PX = 1;

/** Left, top, width and height on the screen. */
export type Place = readonly [number, number, number, number];

export class Deaf {
  private place: Place | null = null;

  /** `since`: milliseconds of any clock that never goes back. */
  constructor(private since: number) {}

  /** Look where it stands at a moment, and whether it hears then. */
  hears(place: Place, now: number): boolean {
    const before = this.place;
    if (before === null || place.some((value, at) => Math.abs(value - (before[at] ?? 0)) >= STILL_PX)) {
      this.place = place;
      this.since = now;
    }
    return now - this.since >= DEAF_MS;
  }
}
