/**
 * What the panel and the extension tell each other.
 *
 * Purpose: the messages of the chat webview, and the picture of everything around the conversation.
 * Invariant: a panel can be thrown away at any time: `ready` brings back all of it.
 * Must never: carry a token, or a command for the extension that came from data.
 */

import type { SessionDetail, ViewItem, WireEvent } from "../../../protocol/typescript/wire.ts";
import type { Raise } from "./bounds.ts";
import type { Shown } from "./keeping.ts";
import type { Said } from "./said.ts";
import type { Finding } from "./suspicion.ts";
import type { TurnFacts } from "./turnFacts.ts";

/** How the window stands to the daemon. `ready` alone lets anything be sent. */
export type LinkKind = "idle" | "starting" | "ready" | "lost" | "missing" | "version" | "failed";

export interface LinkState {
  readonly kind: LinkKind;
  readonly words: string;
  /** What can be done about it: buttons of the panel. */
  readonly actions: readonly WayOn[];
}

export interface WayOn {
  readonly title: string;
  readonly verb: PanelVerb;
}

/** What a button of the panel may ask for by name; the extension knows each of them. */
export type PanelVerb =
  | "retry"
  | "showOutput"
  | "openSettings"
  | "openFolder"
  | "manageTrust"
  | "startSession"
  | "chooseModel"
  | "chooseSandbox"
  | "chooseTrust"
  | "renameSession"
  | "thawSession"
  | "openTrace"
  | "openDoctor"
  | "openTests"
  | "showUsage"
  | "setKey"
  | "openConfig"
  | "attachFile"
  | "chooseMode"
  | "setBudget"
  | "addBudget"
  | "cancel";

export interface SessionRow {
  readonly id: string;
  readonly title: string;
  readonly phase: string;
  readonly folder: string;
  readonly updatedAt: number;
}

/** A session in which words were said: where, and one line of it. */
export interface FoundRow {
  readonly session: SessionRow;
  readonly itemId: string;
  readonly who: "you" | "agent";
  readonly words: string;
}

/** What a search found; `note` says what was not looked at. */
export interface Found {
  readonly text: string;
  readonly rows: readonly FoundRow[];
  readonly note: string;
}

export interface FileRow {
  readonly changeId: string;
  readonly path: string;
  readonly name: string;
  readonly folder: string;
  readonly kind: string;
  readonly added: number;
  readonly removed: number;
  readonly hunks: number;
  /** Of what is shown. */
  readonly digest: string;
  /** Why the file is kept by itself alone; empty for an ordinary one. */
  readonly alone: string;
  /** Why it can't be kept; empty where it can. */
  readonly refused: string;
  /** What a look found in it; nothing where it found nothing. */
  readonly findings: readonly Finding[];
}

export interface QueuedRow {
  readonly messageId: string;
  readonly text: string;
}

export type Mode = NonNullable<SessionDetail["mode"]>;

/** A limit of tokens or of money (in billionths of a US dollar), and what was used of it. */
export interface Budget {
  readonly whose: "turn" | "session";
  readonly unit: "tokens" | "usd";
  readonly used: number;
  readonly limit: number;
  readonly running: boolean;
  /** A turn's limit while none runs and none was ended by it: all of it is for the next one. */
  readonly ahead: boolean;
  /** How many of the tokens used nobody counted: about so many. */
  readonly uncounted: number;
  /** What stands in the way of a request, of all limits that are set. */
  readonly words: string;
}

export interface SessionPicture {
  readonly id: string;
  readonly title: string;
  readonly root: string;
  readonly phase: string;
  readonly trust: string;
  readonly sandbox: string;
  /** The model's own name, and in honest words who answers. */
  readonly model: string;
  readonly modelLabel: string;
  readonly goal: number;
  readonly turnId: string | null;
  /** Since when it runs or waits (UTC microseconds, the daemon's clock); null while idle. */
  readonly since: number | null;
  readonly readOnly: boolean;
  /** Why the session is gone; empty while it is there. */
  readonly ended: string;
  /** Why what is shown can't be made equal to the daemon's view; empty while it can. */
  readonly fault: string;
  readonly inSync: boolean;
  readonly seq: number;
  readonly queue: readonly QueuedRow[];
  readonly files: readonly FileRow[];
  /** Input tokens of the newest request; null when nothing was counted. */
  readonly contextTokens: number | null;
  readonly costNanoUsd: number | null;
  readonly unpriced: number;
  readonly tokens: number;
  readonly mode: Mode;
  /** The limit that is nearest to being reached; null: there is none. */
  readonly budget: Budget | null;
  /** What would make room for the next request; null where no limit stands in its way. */
  readonly raise: Raise | null;
  /** What turns took and cost, by their ids; of those that it is known of. */
  readonly turns: TurnFacts;
}

/** What the first message would begin with. */
export interface FreshPicture {
  /** The model's own name, and who answers; empty where it is not known, or there is none. */
  readonly model: string;
  readonly modelLabel: string;
  readonly mode: Mode;
  /** Empty: the one that the folder's trust level brings. */
  readonly sandbox: string;
  /** The file in which a model could be set up, where there is none; empty while there is one. */
  readonly noModelIn: string;
}

export interface PanelState {
  readonly link: LinkState;
  readonly trusted: boolean;
  readonly folders: number;
  readonly sessions: readonly SessionRow[];
  readonly session: SessionPicture | null;
  readonly fresh: FreshPicture;
  /** Words that stand until they are untrue, such as that nothing can be saved. */
  readonly standing: string;
  readonly mac: boolean;
}

export interface Attachment {
  readonly path: string;
  /** First and last line from 1; null for the whole file. */
  readonly lines: readonly [number, number] | null;
}

export type ToPanel =
  | { readonly type: "state"; readonly state: PanelState }
  | { readonly type: "load"; readonly sessionId: string; readonly items: readonly ViewItem[]; readonly first: number; readonly seq: number }
  | { readonly type: "clear" }
  /** Who is there answers with `ready`. */
  | { readonly type: "hello" }
  | { readonly type: "events"; readonly sessionId: string; readonly events: readonly Pick<WireEvent, "seq" | "ops" | "at">[] }
  | { readonly type: "older"; readonly sessionId: string; readonly items: readonly ViewItem[]; readonly first: number }
  | { readonly type: "olderDone"; readonly sessionId: string }
  /** This window answers a card, from wherever; told before the answer is sent. */
  | { readonly type: "answering"; readonly itemId: string }
  | { readonly type: "whisper"; readonly sessionId: string; readonly words: string }
  | { readonly type: "told"; readonly words: string; readonly bad: boolean }
  /** Something that was asked for was done: what failed before it is told no longer. */
  | { readonly type: "done" }
  | { readonly type: "focus"; readonly what: "composer" | "approval" }
  | { readonly type: "attach"; readonly attachment: Attachment }
  | { readonly type: "draft"; readonly words: string }
  | { readonly type: "found"; readonly found: Found }
  /** Bring an item of this session into view, as soon as the session is loaded. */
  | { readonly type: "reveal"; readonly sessionId: string; readonly itemId: string }
  /** Say what is selected. */
  | { readonly type: "selection" }
  | { readonly type: "sent"; readonly ok: boolean; readonly text: string };

export type SteeringKind = "supplement" | "correct" | "replace" | "ask";
export type SendVerb = "start" | "queue" | "steer" | "interrupt";

export interface Answer {
  readonly approvalId: string;
  readonly cardDigest: string;
  readonly allow: boolean;
  readonly option: number;
  readonly uses: number | null;
  /** The right ends after so many seconds; null: as long as the card offers. */
  readonly lifetimeS: number | null;
}

export type FromPanel =
  | { readonly type: "ready" }
  | {
      readonly type: "send";
      readonly verb: SendVerb;
      readonly text: string;
      readonly kind: SteeringKind | null;
      readonly attachments: readonly Attachment[];
    }
  | { readonly type: "unqueue"; readonly messageId: string }
  | { readonly type: "edit"; readonly messageId: string; readonly text: string }
  | { readonly type: "steerQueued"; readonly messageId: string }
  | { readonly type: "answer"; readonly answer: Answer }
  /** One answer for all cards of a row, in their order. */
  | { readonly type: "answerAll"; readonly answers: readonly Answer[] }
  /** `keepAll` leaves what is kept by itself alone. */
  | { readonly type: "files"; readonly action: "keep" | "keepAll" | "undo" | "review"; readonly files: readonly Shown[] }
  | { readonly type: "openFile"; readonly path: string; readonly line: number | null }
  | { readonly type: "openSession"; readonly sessionId: string; readonly itemId?: string }
  | { readonly type: "search"; readonly text: string }
  | { readonly type: "openOutput"; readonly itemId: string }
  | { readonly type: "openLink"; readonly target: string }
  | { readonly type: "copy"; readonly text: string }
  | { readonly type: "older" }
  | { readonly type: "broken"; readonly words: string }
  | { readonly type: "why"; readonly callId: string }
  | { readonly type: "selection"; readonly text: string }
  /** What the user says of a call whose outcome nobody knows. */
  | { readonly type: "settle"; readonly callId: string; readonly said: Said }
  | { readonly type: "trace"; readonly turnId: string }
  | { readonly type: "cardFocus"; readonly focused: boolean }
  | { readonly type: "painted"; readonly seq: number; readonly at: number }
  | { readonly type: "verb"; readonly verb: PanelVerb };
