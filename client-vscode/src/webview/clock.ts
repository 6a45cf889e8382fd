/**
 * The user's clock.
 *
 * Purpose: moments of the record as the user's own clock and language say them.
 * Invariant: a moment of another day names its day.
 * Must never: order things by time: the record's order is its seq.
 */

/** A moment (UTC microseconds) on the user's clock, with its day where that is not today's. `now`: milliseconds. */
export function clock(micros: number, now: number, locale?: string): string {
  const at = new Date(micros / 1000);
  const time = at.toLocaleTimeString(locale, { hour: "2-digit", minute: "2-digit" });
  return at.toDateString() === new Date(now).toDateString() ? time : `${at.toLocaleDateString(locale, { day: "numeric", month: "short" })}, ${time}`;
}
