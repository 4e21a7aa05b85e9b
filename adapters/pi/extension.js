// sessionpipe:installed-file. Written by `sessionpipe install pi`, taken away by `sessionpipe uninstall pi`.
//
// Tells sessionpipe what happens in Pi: for each of a few events it runs sessionpipe's hook, one at a
// time and in order, with a small JSON object on standard input. Pi must not notice: a handler here
// only copies what it needs and returns nothing; no error leaves it; the hook is a detached child
// without a terminal; and where sessionpipe is gone, nothing happens at all.

import { spawn, spawnSync } from "node:child_process";
import { accessSync, constants, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const LAUNCHER = "@LAUNCHER@";

// Pi was run by `sessionpipe ingest pi -- pi --mode json …`, which tells all of this from Pi's own stream.
const INGESTED = process.env.SESSIONPIPE_INGEST === String(process.ppid);

const TEXT = 64 * 1024; // the longest string that is passed on, in UTF-16 units
const TOTAL = 256 * 1024; // of all strings of one event together
const NODES = 5000; // values of one event
const WAITING = 64 * 1024 * 1024; // of events that wait for their turn
const HOOK_MS = 10_000; // a hook that takes longer is hung
const STUCK_MS = 2_000; // when Pi leaves, it waits as long as events are taken, but not this long for one
const GOODBYE_MS = 10_000; // nor this long for all
const OVERTAKE_MS = 200; // how long a hook may take to look at the clock

// One queue a process, whatever /reload, /new and /resume make of this module: order is across them.
const queue = (globalThis[Symbol.for("sessionpipe.pi.queue.1")] ??= {
  jobs: [],
  size: 0,
  running: null,
  moved: () => {},
  guarded: false,
});

export default function sessionpipe(pi) {
  let run = null; // the protocol's turn: from the first agent_start after idle to agent_settled
  let next = {}; // what the next run will have been started by
  let closed = false;
  let since; // when the session began to be told
  let version;
  const args = new Map(); // the arguments of calls that have not ended

  import("@earendil-works/pi-coding-agent").then(
    (module) => (version = module.VERSION),
    () => {},
  );

  function on(event, handler) {
    const guarded = (ev, ctx) => {
      // Handlers of an extension that was reloaded, or whose session is over, say nothing more.
      if (closed || (INGESTED && ctx?.mode === "json")) return undefined;
      try {
        return handler(ev ?? {}, ctx);
      } catch {
        return undefined;
      }
    };
    try {
      pi.on(event, guarded);
    } catch {
      // A version of Pi without this event.
    }
  }

  function tell(event, ev, ctx, more = {}) {
    const budget = { left: TOTAL, nodes: NODES };
    const line = { event, t: Date.now(), ev: bounded(ev, budget), ctx: context(ctx, event) };
    if (version) line.ctx.version = version;
    if (run && !more.run) line.run = { id: run.id };
    enqueue(event, JSON.stringify({ ...line, ...bounded(more, budget) }));
  }

  on("session_start", (ev, ctx) => {
    if (ev.reason === "reload") return;
    since = Date.now();
    mark(ctx, { since });
    tell("session_start", pick(ev, ["reason", "previousSessionFile"]), ctx);
  });

  on("session_shutdown", (ev, ctx) => {
    if (ev.reason === "reload") {
      closed = true;
      return;
    }
    mark(ctx, { since, until: Date.now() });
    tell("session_shutdown", pick(ev, ["reason"]), ctx);
    closed = true;
    return ev.reason === "quit" ? drained() : undefined;
  });

  on("input", (ev) => {
    if (!run) next = { source: ev.source };
  });

  on("before_agent_start", (ev) => {
    if (run) return;
    if (ev.messageType === "custom") next = { custom: true };
    else if (typeof ev.prompt === "string") {
      next.prompt = cut(ev.prompt, 2000);
      next.prompt_chars = codePoints(ev.prompt);
    }
  });

  on("agent_start", (_ev, ctx) => {
    if (run) return; // a retry, or a queued message, within the same run
    run = { id: `run-${Date.now()}` };
    tell("agent_start", {}, ctx, { run: { ...run, ...next } });
    next = {};
  });

  on("turn_end", (ev) => {
    if (!run) return;
    const message = ev.message ?? {};
    run.outcome = ev.outcome;
    run.stop = message.stopReason;
    run.error = typeof message.errorMessage === "string" ? cut(message.errorMessage, 2000) : undefined;
    // What the end of the run is found by in the session file: the entry, where Pi names it, else its words.
    run.entry = typeof ev.messageEntryId === "string" ? cut(ev.messageEntryId, 256) : undefined;
    run.said = run.entry ? undefined : cut(words(message.content), 20_000);
  });

  on("agent_settled", (ev, ctx) => {
    tell("agent_settled", pick(ev, ["aborted"]), ctx, run ? { run } : {});
    run = null;
    next = {};
    args.clear();
  });

  on("tool_execution_start", (ev, ctx) => {
    const fields = pick(ev, ["toolCallId", "toolName", "args", "parentToolCallId"]);
    if (args.size < 256) args.set(ev.toolCallId, bounded(fields.args, { left: TOTAL, nodes: NODES }));
    tell("tool_execution_start", fields, ctx);
  });

  on("tool_execution_end", (ev, ctx) => {
    const fields = pick(ev, ["toolCallId", "toolName", "isError", "durationMs", "parentToolCallId"]);
    // What else a result holds repeats its content.
    if (ev.result) fields.result = pick(ev.result, ["content"]);
    const more = args.has(ev.toolCallId) ? { args: args.get(ev.toolCallId) } : {};
    args.delete(ev.toolCallId);
    tell("tool_execution_end", fields, ctx, more);
  });

  for (const event of ["ui_prompt_start", "ui_prompt_end"]) {
    on(event, (ev, ctx) => tell(event, pick(ev, ["kind", "title"]), ctx));
  }

  on("session_compact", (ev, ctx) => tell("session_compact", pick(ev, ["reason"]), ctx));
}

// Where Pi's output may be read as a stream, say before its first message that hooks tell this session:
// `sessionpipe ingest` leaves it to them, and nothing is told twice.
function mark(ctx, when) {
  try {
    if (ctx.mode !== "json" && ctx.mode !== "rpc") return;
    const id = ctx.sessionManager.getSessionId();
    if (!/^[A-Za-z0-9._:-]{1,128}$/.test(id)) return;
    accessSync(LAUNCHER, constants.X_OK);
    const folder = join(dirname(dirname(LAUNCHER)), "live");
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(join(folder, `pi-${id}`), JSON.stringify({ pid: process.pid, ...when }), { mode: 0o600 });
  } catch {
    // Without a mark, both tell it.
  }
}

function context(ctx, event) {
  const manager = ctx?.sessionManager;
  const known = {
    mode: ctx?.mode,
    hasUI: ctx?.hasUI,
    cwd: ctx?.cwd,
    sessionId: attempt(() => manager.getSessionId()),
    sessionFile: attempt(() => manager.getSessionFile()),
    sessionName: attempt(() => manager.getSessionName()),
    parentSession: attempt(() => manager.getHeader().parentSession),
    model: attempt(() => `${ctx.model.provider}/${ctx.model.id}`),
  };
  if (event === "session_start") {
    // Only here: the list grows with the session, and Pi copies it.
    const entries = attempt(() => manager.getEntries()) ?? [];
    known.entries = entries.length;
    known.messages = entries.filter((entry) => entry?.type === "message").length;
    const created = attempt(() => Date.parse(manager.getHeader().timestamp));
    if (Number.isFinite(created)) known.created = created;
  }
  return bounded(known, { left: TOTAL, nodes: NODES });
}

function attempt(read) {
  try {
    return read() ?? undefined;
  } catch {
    return undefined;
  }
}

function pick(from, names) {
  return Object.fromEntries(names.filter((name) => from[name] !== undefined).map((name) => [name, from[name]]));
}

function words(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part) => (part?.type === "text" && typeof part.text === "string" ? part.text : "")).join("");
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
  if (queue.size + input.length > WAITING) return;
  queue.jobs.push({ event, input });
  queue.size += input.length;
  if (!queue.guarded) {
    queue.guarded = true;
    process.once("exit", leave);
  }
  if (!queue.running) setImmediate(advance);
}

function advance() {
  if (queue.running) return;
  queue.moved();
  const job = queue.jobs.shift();
  if (!job) return;
  queue.size -= job.input.length;
  let child;
  try {
    accessSync(LAUNCHER, constants.X_OK);
    const [file, words, options] = command(job.event);
    child = spawn(file, words, { ...options, stdio: ["pipe", "ignore", "ignore"], detached: true });
  } catch {
    setImmediate(advance);
    return;
  }
  queue.running = { job, child, read: false };
  const late = setTimeout(() => child.kill("SIGKILL"), HOOK_MS);
  late.unref();
  let over = false;
  const ended = () => {
    if (over) return;
    over = true;
    clearTimeout(late);
    queue.running = null;
    advance();
  };
  child.on("error", ended);
  child.on("exit", ended);
  child.stdin.on("error", () => {});
  child.stdin.end(job.input, () => {
    if (queue.running?.child === child) queue.running.read = true;
  });
  child.unref();
  child.stdin.unref?.();
}

// Resolved when every event has been handed over, or nothing moves any more.
function drained() {
  if (!queue.running && queue.jobs.length === 0) return undefined;
  return new Promise((resolve) => {
    let stuck;
    const over = setTimeout(finish, GOODBYE_MS);
    function finish() {
      clearTimeout(stuck);
      clearTimeout(over);
      queue.moved = () => {};
      resolve();
    }
    queue.moved = () => {
      clearTimeout(stuck);
      if (queue.jobs.length === 0) finish();
      else stuck = setTimeout(finish, STUCK_MS);
    };
    stuck = setTimeout(finish, STUCK_MS);
  });
}

// The process ends now: nothing asynchronous happens any more.
function leave() {
  const until = performance.now() + GOODBYE_MS;
  const { running } = queue;
  if (running && !running.read) {
    // It has not had all its input, so it has recorded nothing.
    running.child.kill("SIGKILL");
    queue.jobs.unshift(running.job);
  } else if (running && queue.jobs.length > 0) {
    // It can't be waited for any more; a moment keeps the next from overtaking it.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, OVERTAKE_MS);
  }
  for (const job of queue.jobs.splice(0)) {
    const timeout = Math.floor(Math.min(STUCK_MS, until - performance.now()));
    if (timeout < 1) return;
    try {
      accessSync(LAUNCHER, constants.X_OK);
      const [file, words, options] = command(job.event);
      const done = spawnSync(file, words, { ...options, input: job.input, stdio: ["pipe", "ignore", "ignore"], timeout });
      if (done.error) return;
    } catch {
      return;
    }
  }
}

function command(event) {
  if (process.platform !== "win32") return [LAUNCHER, ["pi", event], {}];
  // A batch file needs its interpreter. Nobody has run this yet.
  const line = `""${LAUNCHER}" pi ${event}"`;
  return [
    process.env.ComSpec ?? "cmd.exe",
    ["/d", "/s", "/c", line],
    { windowsVerbatimArguments: true, windowsHide: true },
  ];
}
