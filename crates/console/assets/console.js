// What pages gain with script: signatures, live rows, keys, countdowns. Nothing is lost without it. Text of others only ever becomes text
// nodes: the page's policy refuses everything else.

const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const make = (name, className, ...children) => {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...children);
  return node;
};
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

// ---- Signing: every form that changes something is signed with a key that cannot leave this browser.

const ownKey = () => new Promise((done) => {
  const open = indexedDB.open("portcullis", 1);
  open.onupgradeneeded = () => open.result.createObjectStore("keys");
  open.onerror = () => done(null);
  open.onsuccess = () => {
    const get = open.result.transaction("keys").objectStore("keys").get("own");
    get.onsuccess = () => done(get.result ?? null);
    get.onerror = () => done(null);
  };
});

const hex = (bytes) => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
const newline = (text) => text.replace(/\r\n|\r|\n/g, "\n");

const sign = async (form, submitter) => {
  const key = await ownKey();
  if (!key) return;
  const pairs = [...new FormData(form, submitter)].filter(([name]) => !name.startsWith("_"));
  const text = pairs.map(([name, value]) => `${newline(name)}\0${newline(value)}\0`).join("");
  const bytes = new TextEncoder();
  const digest = hex(await crypto.subtle.digest("SHA-256", bytes.encode(text)));
  const at = String(Date.now());
  const message = ["portcullis-console", "POST", new URL(form.action).pathname, digest, at].join("\n");
  const made = await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, key, bytes.encode(message));
  for (const [name, value] of [["_at", at], ["_signature", hex(made)]]) {
    let input = one(`input[name="${name}"]`, form);
    if (!input) {
      input = make("input");
      input.type = "hidden";
      input.name = name;
      form.append(input);
    }
    input.value = value;
  }
};

const loaded = performance.now();
let moved = loaded;

for (const form of all("form[data-sign]")) {
  form.addEventListener("submit", async (event) => {
    if (form.dataset.signed) {
      delete form.dataset.signed;
      return;
    }
    event.preventDefault();
    // A button that has just appeared or moved is not what the person meant to press.
    if (performance.now() - moved < 500) return;
    const submitter = event.submitter;
    await sign(form, submitter);
    form.dataset.signed = "yes";
    form.requestSubmit(submitter);
  });
}

ownKey().then((key) => {
  if (!key) return;
  for (const field of all("[data-code]")) {
    const input = one("input", field);
    input.required = false;
    field.hidden = true;
  }
});

// ---- An approval opens when the end of what it is about has been on the screen.

const answer = one("form[data-answer]");
if (answer) {
  const approve = one("button.approve", answer);
  const box = one("[data-read]", answer);
  const open = () => { approve.disabled = !box.checked; };
  box.closest("p").hidden = true;
  open();
  box.addEventListener("change", open);
  new IntersectionObserver((seen, watch) => {
    if (!seen.some((entry) => entry.isIntersecting)) return;
    box.checked = true;
    moved = performance.now();
    open();
    watch.disconnect();
  }).observe(one("[data-end]"));
}

// ---- Countdowns: each second for the eye, at five minutes and at one for the ear.

const skew = Number(document.body.dataset.now) - Date.now();
const left = (until) => {
  const seconds = Math.max(0, Math.floor((until - Date.now() - skew) / 1000));
  if (seconds === 0) return "over";
  return seconds < 120 ? `${seconds} s left` : `${Math.floor(seconds / 60)} min left`;
};
const speak = (text) => { one("#spoken").textContent = text; };
const countdowns = all("[data-until]");
if (countdowns.length) {
  setInterval(() => {
    for (const node of countdowns) {
      const until = Number(node.dataset.until);
      const text = left(until);
      if (node.textContent !== text) node.textContent = text;
      const seconds = Math.round((until - Date.now() - skew) / 1000);
      if ("speak" in node.dataset && (seconds === 300 || seconds === 60)) speak(text);
    }
  }, 1000);
}

// ---- The lamp, the title, and live rows.

const lamp = one("#lamp");
const title = document.title.replace(/^\(\d+\) /, "");
const showWaiting = (count) => {
  document.title = count > 0 ? `(${count}) ${title}` : title;
};

const text = (runs) => {
  const node = make("bdi");
  for (const run of runs) {
    if (typeof run === "string") node.append(run);
    else node.append(make("span", "mark", `U+${run.toString(16).toUpperCase().padStart(4, "0")}`));
  }
  return node;
};
const kinds = { permitted: ["good", "●"], refused: ["bad", "■"] };
const row = (call) => {
  const link = make("a", "", text(call.time));
  link.href = `/calls/${encodeURIComponent(call.id)}`;
  const [kind, shape] = kinds[call.verdict[0]] ?? ["warn", "▲"];
  const cells = [link, make("span", `badge ${kind}`, `${shape} `, text(call.verdict)), text(call.caller), text(call.target), text(call.why), "", ""];
  const titles = ["Time", "Verdict", "Caller", "Server and tool", "Why", "Label", "Took"];
  const line = make("tr");
  cells.forEach((cell, at) => {
    const td = make("td", "", cell);
    td.dataset.label = titles[at];
    line.append(td);
  });
  return line;
};

const table = one("#calls tbody");
const live = one("[data-live]");
let paused = false;
let held = [];
const MOST = 100;

const mayMove = () => !paused && scrollY < 80 && !table.contains(document.activeElement)
  && !table.matches(":hover") && getSelection().isCollapsed;
const put = () => {
  const rows = held.splice(0).slice(-MOST);
  for (const call of rows) table.prepend(row(call));
  while (table.rows.length > MOST) table.lastElementChild.remove();
  one("#none")?.remove();
  news();
};
const news = () => {
  const button = one("[data-new]");
  button.hidden = held.length === 0;
  button.textContent = held.length > MOST ? `more than ${MOST} new` : `${held.length} new`;
};

const conditions = () => {
  const query = new URLSearchParams(location.search);
  for (const word of (query.get("q") ?? "").split(/\s+/)) {
    const at = word.indexOf(":");
    if (at > 0) query.append(word.slice(0, at), word.slice(at + 1));
  }
  query.delete("q");
  return query;
};

const listen = () => {
  const query = table ? conditions() : new URLSearchParams();
  // An older page stands still.
  if (query.has("until")) return;
  query.delete("since");
  query.delete("limit");
  let pause = 1;
  const open = () => {
    const stream = new EventSource(`/feed?${query}`);
    stream.addEventListener("open", () => {
      pause = 1;
      lamp.textContent = "● live";
      document.body.classList.remove("gone");
    });
    stream.addEventListener("bye", (event) => {
      stream.close();
      lamp.textContent = `○ ${event.data}`;
    });
    stream.addEventListener("message", (event) => {
      const frame = JSON.parse(event.data);
      if (typeof frame.waiting === "number") showWaiting(frame.waiting);
      if (!table || frame.rows.length === 0) return;
      held.push(...frame.rows);
      held.splice(0, held.length - MOST - 1);
      if (mayMove()) put();
      else news();
    });
    stream.addEventListener("error", async () => {
      stream.close();
      lamp.textContent = `○ reconnecting in ${pause} s`;
      document.body.classList.add("gone");
      await wait(pause * 1000);
      pause = Math.min(pause * 2, 15);
      open();
    });
  };
  open();
};

if (lamp) {
  if (live) {
    live.hidden = false;
    const button = one("[data-pause]");
    const flip = () => {
      paused = !paused;
      button.textContent = paused ? "Go on" : "Pause";
      if (!paused && mayMove()) put();
    };
    button.addEventListener("click", flip);
    one("[data-new]").addEventListener("click", () => { scrollTo(0, 0); put(); });
  }
  listen();
}

// ---- This browser's own settings.

const keysOff = "portcullis.keys.off";
for (const button of all("[data-theme-to]")) {
  button.addEventListener("click", () => {
    const theme = button.dataset.themeTo;
    document.cookie = `theme=${theme}; Path=/; SameSite=Strict; Max-Age=${theme ? 31536000 : 0}`;
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  });
}
const box = one("[data-keys]");
if (box) {
  box.checked = !localStorage.getItem(keysOff);
  box.addEventListener("change", () => {
    if (box.checked) localStorage.removeItem(keysOff);
    else localStorage.setItem(keysOff, "yes");
  });
}

// ---- Keys. They move; what changes something is pressed.

let leader = 0;
const rows = () => all("[data-rows] > *");
const step = (by) => {
  const list = rows();
  if (!list.length) return;
  const now = list.findIndex((node) => node.classList.contains("here"));
  const next = Math.min(Math.max(now + by, 0), list.length - 1);
  list[now]?.classList.remove("here");
  list[next].classList.add("here");
  one("a", list[next])?.focus();
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || localStorage.getItem(keysOff)) return;
  const field = event.target.closest("input, textarea, select, button");
  if (event.key === "Escape") {
    if (field) field.blur();
    one("#main")?.focus();
    return;
  }
  if (field) return;
  if (leader && Date.now() - leader < 1500) {
    leader = 0;
    const way = one(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (way) location.assign(way.href);
    return;
  }
  const acts = {
    "g": () => { leader = Date.now(); },
    "?": () => location.assign("/help"),
    "j": () => step(1),
    "k": () => step(-1),
    "/": () => { event.preventDefault(); (one("[data-search]") ?? one("#main"))?.focus(); },
    ".": () => one("[data-pause]")?.click(),
    "y": () => navigator.clipboard?.writeText(location.href),
    "a": () => one(".answer [data-key='a']")?.focus(),
    "d": () => one(".answer [data-key='d']")?.focus(),
  };
  acts[event.key]?.();
});
