// Given to Pi for one run by `sessionpipe journal record --extension`; never installed.
//
// Tells the recorder what happens, through a pipe that only this run knows, and the recorder alone
// writes. Pi must not notice: a handler copies what the journal keeps and returns nothing; no error leaves
// it; nothing here keeps Pi from leaving; and where the recorder is gone, nothing is told.

import { closeSync, constants, existsSync, fstatSync, openSync, writeSync } from "node:fs";

const VARIABLE = "SESSIONPIPE_JOURNAL";
const RECORDS = 8192; // that may wait for the recorder
const BYTES = 16 * 1024 * 1024;
const AGAIN_MS = 5; // until a pipe that was full is tried again
const GOODBYE_MS = 2_000; // how long Pi's leaving may wait for the recorder to take what is left

// One pipe a process, whatever /reload, /new and /resume make of this module.
const pipe = (globalThis[Symbol.for("sessionpipe.journal.1")] ??= opened());

// What the journal keeps of an update; the rest of it repeats the message so far.
const KEPT = ["type", "contentIndex", "delta", "content", "toolCall", "reason"];

export default function journal(pi) {
  if (pipe.fd === null) return;
  const self = {}; // one conversation at a time is told: a session that runs inside another is not
  let told = 0; // entries of the session that the recorder has, or that are older than it
  let ended = []; // messages that ended and have no entry yet

  function on(event, handler) {
    const guarded = (ev, ctx) => {
      if (event === "session_start") pipe.teller ??= self;
      if (pipe.teller !== self || pipe.fd === null) return undefined;
      try {
        handler(ev ?? {}, ctx, Date.now());
      } catch {
        lose("the extension could not read an event of Pi's");
      }
      return undefined;
    };
    try {
      pi.on(event, guarded);
    } catch {
      // A version of Pi without this event.
    }
  }

  // A point at which Pi has stored what it told before: hand over the entries that are new.
  function settle(ctx, t = Date.now()) {
    const manager = ctx?.sessionManager;
    if (!manager || count(manager) === told) return;
    const entries = manager.getEntries();
    for (const entry of entries.slice(told)) {
      const index = ended.findIndex((one) => holds(entry, one.message));
      const [one] = index < 0 ? [] : ended.splice(index, 1);
      send({ type: "entry", t, key: one?.key, entry });
    }
    told = entries.length;
  }

  on("session_start", (ev, ctx, t) => {
    const manager = ctx.sessionManager;
    const file = manager.getSessionFile() ?? undefined;
    send({ type: "session_start", t, sessionId: manager.getSessionId(), file, cwd: ctx.cwd });
    if (ev.reason !== "reload") {
      // A session without a file yet has no past.
      const begun = file === undefined ? !["startup", "new"].includes(ev.reason) : existsSync(file);
      told = begun ? count(manager) : 0;
      pipe.told = { session: manager.getSessionId(), told };
    } else if (pipe.told?.session === manager.getSessionId()) {
      told = pipe.told.told;
    }
    settle(ctx);
  });

  on("session_shutdown", (ev, ctx, t) => {
    settle(ctx);
    pipe.told = { session: ctx.sessionManager.getSessionId(), told };
    send({ type: "session_shutdown", t, reason: ev.reason });
    pipe.teller = null;
  });

  for (const event of ["agent_start", "agent_end"]) {
    on(event, (_ev, ctx, t) => {
      settle(ctx);
      send({ type: event, t });
    });
  }
  for (const event of ["agent_settled", "session_compact", "session_info_changed"]) on(event, (_ev, ctx) => settle(ctx));

  on("turn_start", (ev, ctx, t) => {
    settle(ctx);
    send({ type: "turn_start", t, turnIndex: ev.turnIndex });
  });

  on("turn_end", (ev, ctx, t) => {
    settle(ctx);
    // What Pi itself says goes for a message that another extension replaced.
    link((one) => one.message.role === "assistant", ev.messageEntryId);
    const results = ev.toolResults ?? [];
    results.forEach((result, at) => link((one) => one.message.toolCallId === result.toolCallId, ev.toolResultEntryIds?.[at]));
    ended = [];
    send({ type: "turn_end", t, turnIndex: ev.turnIndex, toolResults: results.map((result) => pick(result, ["toolCallId"])) });
  });

  function link(is, entry) {
    const index = entry ? ended.findIndex(is) : -1;
    if (index < 0) return;
    send({ type: "link", key: ended[index].key, entry });
    ended.splice(index, 1);
  }

  on("message_start", (ev, ctx, t) => {
    settle(ctx);
    send({ type: "message_start", t, message: pick(ev.message, ["role"]) });
  });

  on("message_update", (ev, _ctx, t) => {
    send({ type: "message_update", t, assistantMessageEvent: pick(ev.assistantMessageEvent, KEPT) });
  });

  on("message_end", (ev, ctx, t) => {
    settle(ctx);
    const { role, content } = ev.message;
    const key = ++pipe.messages;
    ended.push({ key, message: ev.message });
    const calls = Array.isArray(content) ? content.filter((block) => block?.type === "toolCall") : [];
    send({ type: "message_end", t, key, message: { role, content: calls.map((call) => pick(call, ["type", "id"])) } });
  });

  on("tool_execution_start", (ev, ctx, t) => {
    settle(ctx);
    send({ t, ...pick(ev, ["type", "toolCallId", "toolName", "args", "parentToolCallId"]) });
  });

  on("tool_execution_update", (ev, _ctx, t) => send({ t, ...pick(ev, ["type", "toolCallId"]) }));

  on("tool_execution_end", (ev, _ctx, t) => {
    send({ t, ...pick(ev, ["type", "toolCallId", "toolName", "result", "isError"]) });
  });
}

function count(manager) {
  return manager.getEntryCount?.() ?? manager.getEntries().length;
}

// Whether an entry is of that very message: Pi stores the object it told of, or one that is like it to
// the last letter when another extension replaced it.
function holds(entry, message) {
  if (entry.type === "custom_message") {
    return message.role === "custom" && entry.customType === message.customType && same(entry.content, message.content);
  }
  if (entry.type !== "message") return false;
  if (entry.message === message) return true;
  const { role, timestamp } = entry.message;
  return role === message.role && timestamp === message.timestamp && same(entry.message, message);
}

function same(one, other) {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

function pick(from, names) {
  return Object.fromEntries(names.filter((name) => from[name] !== undefined).map((name) => [name, from[name]]));
}

function opened() {
  const pipe = { fd: null, lines: [], bytes: 0, messages: 0, again: null, lost: false, teller: null };
  const path = process.env[VARIABLE];
  // What Pi starts is not recorded here.
  delete process.env[VARIABLE];
  if (!path) return pipe;
  try {
    const fd = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
    if (!fstatSync(fd).isFIFO()) {
      closeSync(fd);
      return pipe;
    }
    pipe.fd = fd;
    process.once("exit", leave);
  } catch {
    // No recorder.
  }
  return pipe;
}

function send(value) {
  if (pipe.fd === null || pipe.lost) return;
  const line = Buffer.from(`${JSON.stringify(value)}\n`);
  if (pipe.lines.length >= RECORDS || pipe.bytes + line.length > BYTES) {
    lose("more waited for the recorder than may");
    return;
  }
  pipe.lines.push(line);
  pipe.bytes += line.length;
  drain();
}

// Something can't be told: say so as the last thing, since silence would look like the whole.
function lose(message) {
  if (pipe.lost) return;
  pipe.lost = true;
  const line = Buffer.from(`${JSON.stringify({ type: "failed", message })}\n`);
  pipe.lines.push(line);
  pipe.bytes += line.length;
  drain();
}

// Writes what the pipe takes now, which never waits; the rest when it may take more.
function drain() {
  while (pipe.fd !== null && pipe.lines.length > 0) {
    const line = pipe.lines[0];
    let written = 0;
    try {
      written = writeSync(pipe.fd, line);
    } catch (error) {
      if (error.code === "EAGAIN") break;
      gone();
      return;
    }
    pipe.bytes -= written;
    if (written === line.length) pipe.lines.shift();
    else pipe.lines[0] = line.subarray(written);
  }
  if (pipe.lines.length > 0 && pipe.again === null) {
    pipe.again = setTimeout(() => {
      pipe.again = null;
      drain();
    }, AGAIN_MS);
    pipe.again.unref();
  }
}

function gone() {
  const { fd } = pipe;
  pipe.fd = null;
  pipe.lines = [];
  pipe.bytes = 0;
  try {
    closeSync(fd);
  } catch {
    // It was closed.
  }
}

// The process ends now: nothing asynchronous happens any more.
function leave() {
  const until = performance.now() + GOODBYE_MS;
  for (;;) {
    drain();
    if (pipe.fd === null || pipe.lines.length === 0 || performance.now() >= until) return;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, AGAIN_MS);
  }
}
