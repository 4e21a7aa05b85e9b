// Plays recorded events to the plugin as OpenCode does: node opencode_player.mjs PLUGIN RECORDING [exit]
// With "exit" the process leaves right after the last event, without waiting for anybody; with "dispose" when
// the plugin lets it; else when the last hook has ended.

import { readFileSync } from "node:fs";

const [plugin, recording, how] = process.argv.slice(2);
const lines = readFileSync(recording, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
const { default: factory } = await import(plugin);

// What is played as several processes is one.
process.setMaxListeners(0);

const STATE = Symbol.for("sessionpipe.opencode.1");

async function hookEnded() {
  while (globalThis[STATE].running) await new Promise((resolve) => setTimeout(resolve, 5));
}

// A recorder writes what is not there, too.
function revived(value) {
  if (Array.isArray(value)) return value.map(revived);
  if (value === null || typeof value !== "object") return value;
  const there = Object.entries(value).filter(([, inner]) => inner !== "<undefined>");
  return Object.fromEntries(there.map(([key, inner]) => [key, revived(inner)]));
}

const clock = Date.now;
const answers = new Set();
let hooks;
for (const { at_ms, argv, stdin } of lines) {
  Date.now = () => at_ms ?? clock();
  if (argv) process.argv = argv;
  hooks ??= await factory({ directory: "/home/dev/src" });
  const { hook, input, output } = revived(stdin);
  if (hook === "dispose") {
    if (how === "exit") break;
    await hooks.dispose();
    // What comes then is another process's, and long after.
    await hookEnded();
    delete globalThis[STATE];
    const again = await import(`${plugin}?${at_ms}`);
    hooks = await again.default({ directory: "/home/dev/src" });
    continue;
  }
  try {
    answers.add(String(await hooks[hook]?.(input, output)));
  } catch (error) {
    answers.add(`threw ${error}`);
  }
}
if (how === "exit") process.exit(0);
await hooks.dispose();
if (how !== "dispose") await hookEnded();
console.log(JSON.stringify({ hooks: Object.keys(hooks).sort(), answers: [...answers] }));
