// Plays recorded events to the extension as Pi does: node player.mjs EXTENSION RECORDING [exit]
// With "exit" the process leaves right after the last event, without waiting for anybody.

import { readFileSync } from "node:fs";

const [extension, recording, how] = process.argv.slice(2);
const { default: factory } = await import(extension);
const lines = readFileSync(recording, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));

let now = 0;
if (how !== "exit") Date.now = () => now;

let handlers = new Map();
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

function context(seen) {
  const [provider, id] = (seen.model ?? "/").split("/");
  const entries = Array.from({ length: seen.entries ?? 0 }, () => ({ type: "other" }));
  return {
    mode: seen.mode,
    hasUI: seen.hasUI,
    cwd: seen.cwd,
    model: seen.model ? { provider, id } : undefined,
    sessionManager: {
      getSessionId: () => seen.sessionId,
      getSessionFile: () => seen.sessionFile,
      getSessionName: () => seen.sessionName,
      getHeader: () => ({ parentSession: seen.parentSession, timestamp: "2026-11-29T17:52:57.362Z" }),
      getEntries: () => entries,
    },
  };
}

start();
const answers = new Set();
for (const { event, t, ev, ctx } of lines) {
  now = Math.floor(t);
  if (event === "session_start" && ["new", "resume", "fork", "reload"].includes(ev.reason)) start();
  for (const handler of handlers.get(event) ?? []) {
    let answer;
    try {
      answer = handler(ev, context(ctx));
    } catch (error) {
      answer = `threw ${error}`;
    }
    if (event === "session_shutdown" && answer instanceof Promise && how !== "exit") answer = await answer;
    if (event !== "session_shutdown" || how !== "exit") answers.add(answer);
  }
}
if (how === "exit") process.exit(0);
console.log(JSON.stringify({ subscribed: [...subscribed].sort(), answers: [...answers].map(String) }));
