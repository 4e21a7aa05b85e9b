// What Pi itself makes of session files: node pi_sessions.mjs PACKAGE, a JSON object a line in and out.
// In: { text } (a session file) and { leaf } to look at another branch. Out: what SessionManager tells.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const module = await import(pathToFileURL(`${process.argv[2]}/dist/core/session-manager.js`));
const { getUsageCostBreakdown } = await import(pathToFileURL(`${process.argv[2]}/dist/core/usage-totals.js`));
const { SessionManager, parseSessionEntries, buildContextEntries, buildSessionContext } = module;

function shape(node) {
  // Without recursion: chains are long.
  const out = { id: node.entry.id, children: [] };
  const waiting = [[node, out]];
  while (waiting.length > 0) {
    const [from, to] = waiting.pop();
    for (const child of from.children) {
      const copy = { id: child.entry.id, children: [] };
      to.children.push(copy);
      waiting.push([child, copy]);
    }
  }
  return out;
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const { text, leaf } = JSON.parse(line);
  const manager = SessionManager.inMemory("/src", undefined, parseSessionEntries(text));
  const entries = manager.getEntries();
  const at = leaf === undefined ? manager.getLeafId() : leaf;
  const costs = getUsageCostBreakdown(entries);
  const answer = {
    usage: { tokens: costs.reduce((sum, each) => sum + each.tokens, 0), cost: costs.reduce((sum, each) => sum + each.cost, 0) },
    header: manager.getHeader(),
    entries,
    leaf: manager.getLeafId(),
    branch: manager.getBranch(leaf).map((entry) => entry.id),
    children: Object.fromEntries(entries.map((entry) => [entry.id, manager.getChildren(entry.id).map((each) => each.id)])),
    tree: manager.getTree().map(shape),
    labels: Object.fromEntries(entries.flatMap((entry) => (manager.getLabel(entry.id) ? [[entry.id, manager.getLabel(entry.id)]] : []))),
    name: manager.getSessionName() ?? null,
    contextEntries: buildContextEntries(entries, at),
    context: buildSessionContext(entries, at),
  };
  console.log(JSON.stringify(answer));
}
