// sessionpipe:installed-file. Written by `sessionpipe install opencode`, taken away by `sessionpipe uninstall opencode`.
//
// Tells sessionpipe what happens in OpenCode: for each of a few events it runs sessionpipe's hook, one at a
// time and in order, with a small JSON object on standard input. OpenCode must not notice: a handler here
// only copies what it needs and waits for nothing; no error leaves it; the hook is a detached child without
// a terminal; and where sessionpipe is gone, nothing happens at all.

import { spawn, spawnSync } from "node:child_process";
import { accessSync, closeSync, constants, openSync, unlinkSync, writeSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, isAbsolute, join } from "node:path";

const LAUNCHER = "@LAUNCHER@";

const TEXT = 64 * 1024; // the longest string that is passed on, in UTF-16 units
const TOTAL = 256 * 1024; // of all strings of one event together
const NODES = 5000; // values of one event
const WAITING = 64 * 1024 * 1024; // of events that wait for their turn
const HOOK_MS = 10_000; // a hook that takes longer is hung
const STUCK_MS = 2_000; // when OpenCode leaves, it waits as long as events are taken, but not this long for one
const GOODBYE_MS = 10_000; // nor this long for all
const OVERTAKE_MS = 200; // how long a hook may take to look at the clock
const LATE_MS = 2_000; // how long a turn that is over waits for its calls to end
const SESSIONS = 1_000; // sessions that are remembered
const CALLS = 1_000; // calls of one that are

// How OpenCode names a session that has no title yet.
const UNTITLED = /^(New|Child) session - \d{4}-\d\d-\d\dT[\d:.]+Z$/;
const COMMANDS = new Set(["acp", "attach", "github", "run", "serve", "web"]);

// One a process, however often OpenCode loads this file: order is across its folders.
const state = (globalThis[Symbol.for("sessionpipe.opencode.1")] ??= {
  sessions: new Map(),
  version: undefined,
  jobs: [],
  size: 0,
  running: null,
  moved: () => {},
  guarded: false,
});

export default async function sessionpipe(input) {
  function guarded(handler) {
    return async (...given) => {
      here = input?.directory;
      attempt(() => handler(...given));
    };
  }
  return {
    event: guarded(({ event }) => EVENTS[event.type]?.(event.properties ?? {}, event.type)),
    "chat.message": guarded(prompted),
    dispose: () => attempt(drained),
  };
}

// The folder of the OpenCode that is speaking; one process may serve several.
let here;

const EVENTS = {
  __proto__: null,

  "session.created"({ info }, type) {
    const session = know(info);
    // Of a session that goes on, OpenCode says which version began it.
    state.version = info.version;
    session.told = true;
    tell(type, session);
  },
  "session.updated"({ info }) {
    know(info);
  },
  "session.deleted"({ info }, type) {
    const session = know(info);
    if (session.ending) finish(session);
    tell(type, session);
    state.sessions.delete(session.id);
  },
  "session.compacted"({ sessionID }, type) {
    const session = know({ id: sessionID });
    tell(type, session, { auto: session.auto });
  },
  "session.error"({ sessionID, error }) {
    const session = state.sessions.get(sessionID);
    if (session?.running) session.error = error;
  },
  "session.status": idle,
  "session.idle": idle,
  "message.updated"({ info }) {
    const session = state.sessions.get(info.sessionID);
    if (info.role !== "assistant" || !session?.running) return;
    // A prompt that was typed while another was being answered is answered from now on.
    const next = session.queued.findIndex((told) => told.turn === info.parentID);
    for (const told of session.queued.splice(0, next + 1)) begin(session, told);
    if (info.mode === "compaction" || info.summary === true) return;
    session.last = info.id;
    session.model = info.modelID ?? session.model;
  },
  "message.part.updated"({ part }, type) {
    const session = state.sessions.get(part.sessionID);
    if (part.type === "tool" && session) called(session, part, type);
    if (part.type === "compaction" && session) session.auto = part.auto === true;
  },
  "permission.asked"({ id, sessionID, permission, patterns, metadata, tool }, type) {
    const session = know({ id: sessionID });
    const { command, filepath, url } = metadata ?? {};
    const pattern = Array.isArray(patterns) ? patterns[0] : undefined;
    const named = session.tools.get(tool?.callID);
    tell(type, session, { ask: { id, tool: named ?? permission, input: { command, path: filepath, url, pattern } } });
  },
  "permission.replied": replied,
  "question.asked"({ id, sessionID, questions }, type) {
    tell(type, know({ id: sessionID }), { ask: { id, message: questions?.[0]?.question } });
  },
  "question.replied": replied,
  "question.rejected": replied,
};

// Two events say that a session is idle, `session.status` first; OpenCode means to keep only that one.
function idle({ sessionID, status }, type) {
  const session = state.sessions.get(sessionID);
  if (!session?.running || (status && status.type !== "idle")) return;
  if (!session.ending) {
    for (const told of session.queued.splice(0)) begin(session, told);
    session.ending = Date.now();
    setTimeout(() => attempt(() => finish(session)), LATE_MS).unref();
  }
  // An aborted call ends after its turn, and would seem to be of the next.
  if (type === "session.idle" && !(session.error && session.open.size > 0)) finish(session);
}

function replied({ sessionID, requestID, reply }, type) {
  tell(type, know({ id: sessionID }), { ask: { id: requestID, reply } });
}

function prompted(input, { message, parts }) {
  if (message.agent === "title") return;
  const session = know({ id: input.sessionID });
  const texts = parts.filter((part) => part.type === "text" && typeof part.text === "string");
  const typed = texts.filter((part) => !part.synthetic && !part.ignored).map((part) => part.text).join("\n");
  const told = {
    t: Date.now(),
    turn: message.id,
    prompt: cut(typed, 2000),
    prompt_chars: codePoints(typed),
    // What starts a subagent is what the agent wrote.
    injected: Boolean(session.parentID) || (texts.length > 0 && typed === "") || undefined,
  };
  session.model = message.model?.modelID ?? session.model;
  if (session.ending) finish(session);
  if (session.running) session.queued.push(told);
  else begin(session, told);
}

function begin(session, { t, turn, ...more }) {
  session.running = true;
  session.turn = turn;
  session.since = t;
  session.last = undefined;
  // The first that is heard of a session nobody has seen being made: it goes on.
  const resumed = session.told ? undefined : true;
  session.told = true;
  tell("chat.message", session, { resumed, ...more }, t);
}

function finish(session) {
  const { ending, error, last } = session;
  if (!ending) return;
  session.ending = session.error = undefined;
  session.running = false;
  session.open.clear();
  tell("session.idle", session, { last, error: error && failure(error) }, ending);
}

function failure({ name, data }) {
  const { statusCode, responseBody } = data ?? {};
  return { name, statusCode, responseBody: typeof responseBody === "string" ? cut(responseBody, 2000) : undefined };
}

// OpenCode says of a call again and again how it is; here it starts once and ends once.
function called(session, part, type) {
  const { id, callID, tool, state: now } = part;
  const { start, end, compacted } = now.time ?? {};
  // Of an old call it is said that its output was dropped; of a forked session, all that was copied.
  if (compacted || (end ?? start) < session.since) return;
  // By its part's id: a model may give a call an id that it gave another one before.
  let call = session.calls.get(id);
  if (!call) {
    // A command that the person ran is no call.
    if (!session.running) return;
    session.calls.set(id, (call = {}));
    forget(session.calls, CALLS);
  }
  session.tools.set(callID, tool);
  forget(session.tools, CALLS);
  if (call.ended || now.status === "pending") return;
  const metadata = Object(now.metadata);
  const told = { tool, callID, status: now.status, input: now.input };
  // A subagent is a session, which its call names once it is made.
  if (tool === "task" && typeof metadata.sessionId === "string") {
    told.agent = { id: metadata.sessionId, type: now.input?.subagent_type };
  }
  if (now.status === "running") {
    if (call.started && (call.agent || !told.agent)) return;
    told.again = call.started;
    call.started = true;
    call.agent = Boolean(told.agent);
    session.open.add(id);
    tell(type, session, { part: told });
    return;
  }
  call.ended = true;
  session.open.delete(id);
  told.ms = end - start;
  told.output = now.output;
  told.error = problem(part, metadata);
  tell(type, session, { part: told });
  if (session.ending && session.open.size === 0) finish(session);
}

function problem({ tool, state: { status, error, output, input } }, metadata) {
  if (status === "error") return typeof error === "string" && error ? error : "error";
  if (tool === "invalid") return input?.error ?? "invalid";
  if (!("exit" in metadata) || metadata.exit === 0) return undefined;
  if (metadata.exit !== null) return `exit code ${metadata.exit}`;
  return /<shell_metadata>\s*([\s\S]*?)\s*<\/shell_metadata>/.exec(output)?.[1] ?? "ended without an exit code";
}

function know(info) {
  let session = state.sessions.get(info.id);
  if (!session) {
    session = { id: info.id, calls: new Map(), tools: new Map(), open: new Set(), queued: [] };
    state.sessions.set(info.id, session);
    forget(state.sessions, SESSIONS);
  }
  session.parentID = info.parentID ?? session.parentID;
  session.directory = info.directory ?? session.directory ?? here;
  session.model = info.model?.id ?? session.model;
  if (typeof info.title === "string" && !UNTITLED.test(info.title)) session.title = info.title;
  return session;
}

function forget(map, most) {
  if (map.size > most) map.delete(map.keys().next().value);
}

function tell(event, session, more = {}, t = Date.now()) {
  const { id, parentID, directory, title, model, turn } = session;
  const budget = { left: TOTAL, nodes: NODES };
  const line = {
    event,
    t,
    session: { id, parentID, directory, title, model },
    version: state.version,
    attended: attended(),
    store: store(),
    turn,
    ...more,
  };
  enqueue(event, JSON.stringify(bounded(line, budget)));
}

// Where OpenCode keeps its sessions, if it is told where.
function store() {
  const named = process.env.OPENCODE_DB;
  if (!named || named === ":memory:" || isAbsolute(named)) return named;
  return join(process.env.XDG_DATA_HOME || join(homedir(), ".local", "share"), "opencode", named);
}

// A server's clients may be anybody.
function attended() {
  if (/[\\/]tui[\\/]worker\.[jt]s$/.test(process.argv[1])) return true;
  const command = process.argv.slice(2).find((word) => COMMANDS.has(word));
  return command === "run" ? false : undefined;
}

function attempt(doing) {
  try {
    return doing();
  } catch {
    return undefined;
  }
}

function codePoints(text) {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

function cut(text, units) {
  if (text.length <= units) return text;
  const last = text.charCodeAt(units - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? units - 1 : units);
}

// A copy that JSON.stringify can't fail on, of bounded size whatever the value is.
function bounded(value, budget, depth = 0) {
  if (--budget.nodes < 0) return undefined;
  if (typeof value === "string") {
    const text = cut(value, Math.min(TEXT, Math.max(budget.left, 1)));
    budget.left -= text.length;
    return text;
  }
  if (value === null || typeof value === "boolean" || typeof value === "number") return value;
  if (typeof value !== "object" || depth > 12) return undefined;
  if (Array.isArray(value)) return value.slice(0, 1000).map((item) => bounded(item, budget, depth + 1) ?? null);
  const copy = Object.create(null);
  for (const key of Object.keys(value)) {
    if (budget.nodes < 0) break;
    const name = cut(key, 256);
    budget.left -= name.length;
    copy[name] = bounded(value[key], budget, depth + 1);
  }
  return copy;
}

function enqueue(event, input) {
  if (state.size + input.length > WAITING) return;
  state.jobs.push({ event, input });
  state.size += input.length;
  if (!state.guarded) {
    state.guarded = true;
    process.once("exit", () => attempt(leave));
  }
  advance();
}

// The next hook is started when the last has ended, or they would overtake each other.
function advance() {
  while (!state.running && state.jobs.length > 0) {
    const job = state.jobs.shift();
    state.size -= job.input.length;
    attempt(() => start(job));
  }
  state.moved();
}

function start(job) {
  accessSync(LAUNCHER, constants.X_OK);
  const [file, words, options] = command(job.event);
  const stdin = written(job.input);
  let child;
  try {
    child = spawn(file, words, { ...options, stdio: [stdin ?? "pipe", "ignore", "ignore"], detached: true });
  } finally {
    if (stdin !== undefined) closeSync(stdin);
  }
  state.running = child;
  const late = setTimeout(() => child.kill("SIGKILL"), HOOK_MS);
  late.unref();
  let over = false;
  const ended = () => {
    if (over) return;
    over = true;
    clearTimeout(late);
    state.running = null;
    advance();
  };
  child.on("error", ended);
  child.on("exit", ended);
  child.stdin?.on("error", () => {});
  child.stdin?.end(job.input);
  child.unref();
}

// All of its input, in a file without a name, so that a hook that was started needs nobody any more.
function written(input) {
  if (process.platform === "win32") return undefined;
  const path = join(dirname(dirname(LAUNCHER)), `.opencode-${process.pid}-${Math.random().toString(36).slice(2)}`);
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL;
  const file = openSync(path, flags, 0o600);
  try {
    unlinkSync(path);
    const bytes = Buffer.from(input);
    // At a position, so that the file is still at its beginning.
    for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at, bytes.length - at, at);
    return file;
  } catch (error) {
    closeSync(file);
    throw error;
  }
}

// Resolved when every event has been handed over, or nothing moves any more.
function drained() {
  for (const session of state.sessions.values()) finish(session);
  if (state.jobs.length === 0) return undefined;
  return new Promise((resolve) => {
    let stuck;
    const over = setTimeout(finished, GOODBYE_MS);
    function finished() {
      clearTimeout(stuck);
      clearTimeout(over);
      state.moved = () => {};
      resolve();
    }
    state.moved = () => {
      clearTimeout(stuck);
      if (state.jobs.length === 0) finished();
      else stuck = setTimeout(finished, STUCK_MS);
    };
    stuck = setTimeout(finished, STUCK_MS);
  });
}

// The process ends now: nothing asynchronous happens any more.
function leave() {
  const until = performance.now() + GOODBYE_MS;
  for (const session of state.sessions.values()) finish(session);
  // The one that runs can't be waited for any more; a moment keeps the next from overtaking it.
  if (state.running && state.jobs.length > 0) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, OVERTAKE_MS);
  }
  for (const job of state.jobs.splice(0)) {
    const timeout = Math.floor(Math.min(STUCK_MS, until - performance.now()));
    if (timeout < 1) return;
    accessSync(LAUNCHER, constants.X_OK);
    const [file, words, options] = command(job.event);
    const done = spawnSync(file, words, { ...options, input: job.input, stdio: ["pipe", "ignore", "ignore"], timeout });
    if (done.error) return;
  }
}

function command(event) {
  if (process.platform !== "win32") return [LAUNCHER, ["opencode", event], {}];
  // A batch file needs its interpreter. Nobody has run this yet.
  const line = `""${LAUNCHER}" opencode ${event}"`;
  return [
    process.env.ComSpec ?? "cmd.exe",
    ["/d", "/s", "/c", line],
    { windowsVerbatimArguments: true, windowsHide: true },
  ];
}
