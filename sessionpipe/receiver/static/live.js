// Keeps the page as it is now: whenever the receiver says "look", the page is fetched anew and what
// differs is put in place. The server makes all of it, so there is one way it can look; what stays the
// same is left alone, and with it the focus, what is selected and what is unfolded.
"use strict";

const main = document.getElementById("main");
const link = document.getElementById("link");
const news = document.getElementById("news");
const PAUSE_MS = 300, AGES_MS = 20000;

let looking = false, again = false, lastLook = 0, timer = 0, stream = null, leaving = false;

function say(on) {
  link.hidden = false;
  link.className = "link " + (on ? "on" : "off");
  link.textContent = on ? "live" : "not connected, as of " + new Date(lastLook).toLocaleTimeString();
}

function look() {
  if (looking) { again = true; return; }
  clearTimeout(timer);
  timer = setTimeout(fetchNow, Math.max(0, lastLook + PAUSE_MS - Date.now()));
}

async function fetchNow() {
  looking = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store" });
    if (leaving) return;
    if (answer.status === 401 || answer.status === 404) { location.reload(); return; }
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = fresh.getElementById("main");
    if (next) {
      tell(next);
      morph(main, next);
      document.title = fresh.title;
      lastLook = Date.now();
    }
  } catch {
    // The stream says whether the receiver is there, and it will say "look" when it is back.
  } finally {
    looking = false;
    if (again) { again = false; look(); }
  }
}

// What a person who does not see the page must hear: only who needs them now and did not before.
function tell(next) {
  const before = new Set([...main.querySelectorAll(".card.needs")].map((card) => card.id));
  const fresh = [...next.querySelectorAll(".card.needs")].filter((card) => !before.has(card.id));
  if (fresh.length) {
    news.textContent = fresh.map((card) =>
      card.querySelector("h3").textContent + " needs you: " + card.querySelector(".words").textContent).join(". ");
  }
}

function morph(old, next) {
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const named = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
  let at = old.firstChild;
  for (const wanted of [...next.childNodes]) {
    const known = wanted.id ? named.get(wanted.id) : like(at, wanted) ? at : null;
    if (!known) { old.insertBefore(wanted, at); continue; }
    if (known === at) at = at.nextSibling;
    else old.insertBefore(known, at);
    if (known.isEqualNode(wanted)) continue;
    if (known.nodeType === Node.ELEMENT_NODE) morph(known, wanted);
    else known.nodeValue = wanted.nodeValue;
  }
  while (at) { const gone = at; at = at.nextSibling; gone.remove(); }
}

function like(node, wanted) {
  return node && node.nodeType === wanted.nodeType && node.nodeName === wanted.nodeName && !node.id && !wanted.id;
}

// A form leads on to another page: that the session it deletes is gone must not be looked at before that.
document.addEventListener("submit", () => { leaving = true; });
window.addEventListener("pageshow", () => { leaving = false; });

// A browser has six connections for all its pages of a server, and one that follows keeps one for itself:
// a page nobody sees lets go of it and looks now and then, or the seventh page would never be answered.
function follow() {
  if (document.hidden) { stream?.close(); stream = null; return; }
  if (stream && stream.readyState !== EventSource.CLOSED) return;
  stream = new EventSource(main.dataset.live);
  stream.onmessage = () => { say(true); look(); };
  stream.onerror = () => say(false);
}

if (main.dataset.live) {
  lastLook = Date.now();
  follow();
  // By itself a browser does not ask again where it was refused: when too many follow, or the token is another.
  setInterval(() => { if (stream?.readyState !== EventSource.CONNECTING) look(); follow(); }, AGES_MS);
  document.addEventListener("visibilitychange", follow);
}
