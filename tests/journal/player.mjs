// Plays what an extension saw of a recorded run to ours, as Pi does: node player.mjs EXTENSION RECORDING FOLDER
// FOLDER holds the session files of the recording, if it has any. With "exit" behind it the process
// ends right after the last event, and nothing else happens between the events; with "old" Pi is an older one;
// with "both" every session that starts runs beside those that have.

import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [extension, recording, folder, how] = process.argv.slice(2);
const { default: factory } = await import(extension);
const parsed = (file) => readFileSync(file, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
const lines = parsed(recording);

// Entries by session; what has no file has an entry for each message that ended.
const sessions = new Map();
for (const name of existsSync(folder) ? readdirSync(folder).filter((one) => one.startsWith("session")) : []) {
  const [header, ...entries] = parsed(join(folder, name));
  sessions.set(header.id, entries);
}
for (const { event, ev, ctx } of lines) {
  const entries = sessions.get(ctx.sessionId) ?? [{ type: "model_change", id: "00000001" }, { type: "thinking_level_change", id: "00000002" }];
  if (!sessions.has(ctx.sessionId) || entries.made) {
    sessions.set(ctx.sessionId, entries);
    entries.made = true;
    if (event === "message_end" && ev.message) entries.push({ type: "message", id: `made${entries.length}`, message: ev.message });
    if (event === "turn_end" && ev.message) {
      const { role, timestamp } = ev.message;
      const entry = entries.find((one) => one.message?.role === role && one.message?.timestamp === timestamp);
      if (entry) entry.id = ev.messageEntryId;
    }
  }
}

// A session file is there or not, as it was.
const disk = mkdtempSync(join(tmpdir(), "player-"));
const files = new Map();
function file(ctx, onDisk) {
  if (!ctx.sessionFile) return undefined;
  if (!files.has(ctx.sessionId)) files.set(ctx.sessionId, join(disk, `${ctx.sessionId}.jsonl`));
  if (onDisk >= 0) writeFileSync(files.get(ctx.sessionId), "{}\n");
  return files.get(ctx.sessionId);
}

let handlers = new Map();
const instances = new Map(); // by session, with "both"
const subscribed = new Set();
function start() {
  handlers = new Map();
  factory({
    on(event, handler) {
      subscribed.add(event);
      handlers.set(event, [...(handlers.get(event) ?? []), handler]);
    },
  });
}

start();
const answers = new Set();
for (const { event, t, ev, ctx, disk: onDisk } of lines) {
  Date.now = () => t;
  const entries = sessions.get(ctx.sessionId);
  if (event === "message_end" && ev.message) {
    // Pi stores the very object that it told of.
    const entry = entries.find((one) => one.message?.role === ev.message.role && one.message.timestamp === ev.message.timestamp);
    if (entry) entry.message = ev.message;
  }
  if (event === "session_start" && ev.reason !== "startup") start();
  if (!instances.has(ctx.sessionId) && event === "session_start") instances.set(ctx.sessionId, handlers);
  if (how === "both") handlers = instances.get(ctx.sessionId);
  const context = {
    cwd: ctx.cwd,
    sessionManager: {
      getSessionId: () => ctx.sessionId,
      getSessionFile: () => file(ctx, onDisk),
      getEntryCount: how === "old" ? undefined : () => Math.min(ctx.entries, entries.length),
      getEntries: () => entries.slice(0, ctx.entries),
    },
  };
  if (event === "session_start") file(ctx, onDisk);
  for (const handler of handlers.get(event) ?? []) {
    let answer;
    try {
      answer = handler(ev, context);
    } catch (error) {
      answer = `threw ${error}`;
    }
    answers.add(String(answer));
  }
  // Between Pi's events other things happen.
  if (how !== "exit") await new Promise((resolve) => setImmediate(resolve));
}
console.log(JSON.stringify({ subscribed: [...subscribed].sort(), answers: [...answers], variable: process.env.SESSIONPIPE_JOURNAL ?? null }));
if (how === "exit") process.exit(0);
