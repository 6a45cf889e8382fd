/**
 * Words for numbers, times and states.
 *
 * Purpose: one way of saying each thing in the panel, the trees and the status bar.
 * Invariant: functions of their arguments; digits in the units of the interface's own rules.
 * Must never: claim more than the record says.
 */

const BYTES = ["bytes", "KiB", "MiB", "GiB"] as const;

/** `1 file`, `2 files`. */
export function counted(number: number, noun: string, many = `${noun}s`): string {
  return `${grouped(number)} ${number === 1 ? noun : many}`;
}

/** `1,284`. */
export function grouped(number: number): string {
  return String(number).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Microseconds as `38 ms`, `0.4 s`, `12 s`, `2 min 05 s`. */
export function lasting(micros: number): string {
  const seconds = micros / 1e6;
  if (seconds < 0.1) {
    return `${Math.max(0, Math.round(micros / 1000))} ms`;
  }
  if (seconds < 10) {
    return `${seconds.toFixed(1)} s`;
  }
  const whole = Math.round(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
}

/** Whole seconds of something that still goes on: `9 s`, `2 min 05 s`. */
export function running(micros: number): string {
  const whole = Math.max(0, Math.floor(micros / 1e6));
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
}

/** `$0.42`; never rounded to nothing. */
export function dollars(nanoUsd: number): string {
  if (nanoUsd > 0 && nanoUsd < 5_000_000) {
    return "<$0.01";
  }
  return `$${(nanoUsd / 1e9).toFixed(2)}`;
}

/** `850 bytes`, `12.3 KiB`. */
export function sized(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < BYTES.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return unit === 0 ? counted(bytes, "byte") : `${value.toFixed(1)} ${BYTES[unit] ?? ""}`;
}

/** `18.2k tokens`. */
export function tokens(count: number): string {
  return count < 1000 ? counted(count, "token") : `${(count / 1000).toFixed(count < 100_000 ? 1 : 0)}k tokens`;
}

/** Seconds of a right's life: `10 min`, `8 h`, `30 days`. */
export function lifetime(seconds: number): string {
  if (seconds >= 86_400) {
    return counted(Math.round(seconds / 86_400), "day");
  }
  return seconds >= 3600 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 60)} min`;
}

export type PhaseLook = "run" | "wait" | "pause" | "unknown" | "error" | "idle";

/** How a session's phase looks: a shape each, never a colour alone. */
export function phaseLook(phase: string): PhaseLook {
  switch (phase) {
    case "model":
    case "tools":
    case "running":
    case "retrying":
    case "compacting":
    case "stopping":
      return "run";
    case "waiting":
      return "wait";
    case "paused":
      return "pause";
    case "unknown":
      return "unknown";
    case "failed":
      return "error";
    default:
      return "idle";
  }
}

/** A session's phase in words. */
export function phaseWords(phase: string): string {
  const words: Readonly<Record<string, string>> = {
    model: "Running",
    tools: "Running",
    waiting: "Waits for you",
    stopping: "Stopping",
    unknown: "Outcome unknown",
    failed: "Ended with an error",
  };
  return words[phase] ?? (phase === "" ? "Idle" : phase.charAt(0).toUpperCase() + phase.slice(1));
}

/** The last part of a path, and what stands before it. */
export function splitPath(path: string): { readonly name: string; readonly folder: string } {
  const at = path.lastIndexOf("/");
  return { name: path.slice(at + 1), folder: at < 0 ? "" : path.slice(0, at) };
}

/** `Trusted`. */
export function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}

/** A time of the clock in the user's own way, with its day where that is not today; both in milliseconds. */
export function clock(at: number, now: number, locale?: string): string {
  const day = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short" });
  const time = new Intl.DateTimeFormat(locale, { hour: "numeric", minute: "2-digit" }).format(at);
  return day.format(at) === day.format(now) ? time : `${day.format(at)}, ${time}`;
}
