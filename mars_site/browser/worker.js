// Keeps the files of the exported page in the browser: after the first visit it opens without a network. What to keep is
// written above this script (mars_site/command.py).

const { version, files } = self.lensKept;
const OURS = `mars-lens ${self.registration.scope}`; // other pages may be on the same server
const STORE = `${OURS} ${version}`;

async function fill() {
  const store = await caches.open(STORE);
  await store.addAll(files.map((file) => new Request(file, { cache: "reload" })));
  await self.skipWaiting();
}

async function take() {
  const old = (await caches.keys()).filter((name) => name.startsWith(`${OURS} `) && name !== STORE);
  await Promise.all(old.map((name) => caches.delete(name)));
  await self.clients.claim();
}

async function give(request) {
  const store = await caches.open(STORE);
  return (await store.match(request, { ignoreSearch: true })) ?? fetch(request);
}

self.addEventListener("install", (event) => event.waitUntil(fill()));
self.addEventListener("activate", (event) => event.waitUntil(take()));
self.addEventListener("fetch", (event) => {
  if (event.request.method === "GET" && event.request.url.startsWith(self.registration.scope)) event.respondWith(give(event.request));
});
