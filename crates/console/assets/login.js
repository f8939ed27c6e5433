// Logs in: takes the code out of the address, makes a key that cannot leave this browser, and hands both in.
// The key is per origin, port included; a stolen cookie without it looks and does not act.

const keep = (key) => new Promise((done, failed) => {
  const open = indexedDB.open("portcullis", 1);
  open.onupgradeneeded = () => open.result.createObjectStore("keys");
  open.onerror = () => failed(open.error);
  open.onsuccess = () => {
    const put = open.result.transaction("keys", "readwrite").objectStore("keys").put(key, "own");
    put.onsuccess = () => done();
    put.onerror = () => failed(put.error);
  };
});

const code = location.hash.slice(1);
if (code) history.replaceState(null, "", location.pathname + location.search);

const form = document.querySelector("form[data-login]");
const field = form.elements.code;

const ready = (async () => {
  const pair = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, false, ["sign"]);
  await keep(pair.privateKey);
  const spki = new Uint8Array(await crypto.subtle.exportKey("spki", pair.publicKey));
  const input = document.createElement("input");
  input.type = "hidden";
  input.name = "key";
  input.value = Array.from(spki, (byte) => byte.toString(16).padStart(2, "0")).join("");
  form.append(input);
})().catch(() => {}); // Without a key each act asks for a code.

form.addEventListener("submit", async (event) => {
  if (form.dataset.ready) return;
  event.preventDefault();
  await ready;
  form.dataset.ready = "yes";
  form.submit();
});

if (/^[a-z0-9-]{8,40}$/.test(code)) {
  field.value = decodeURIComponent(code);
  form.requestSubmit();
} else {
  field.focus();
}
