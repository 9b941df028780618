"use strict";
const byId = (id) => document.getElementById(id);
const REFRESH_MS = 10000;
let key = null;
let timer = null;

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

async function api(path, body) {
  const options = { headers: { Authorization: "Bearer " + key }, cache: "no-store" };
  if (body !== undefined) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const answer = await fetch(path, options);
  const content = await answer.json().catch(() => ({ detail: "the answer was no JSON" }));
  if (!answer.ok) throw Object.assign(new Error(content.detail || answer.statusText), { status: answer.status });
  return content;
}

function complain(error) {
  byId("alert").textContent = error ? "That did not work: " + error.message : "";
}

function fact(name, value) {
  const pair = element("div");
  pair.append(element("dt", name), element("dd", String(value)));
  return pair;
}

const CLASSES = { fresh: "good", ok: "good", reindexing: "busy", replacing: "busy", dims_mismatch: "bad" };

function showStats(stats) {
  const state = byId("state");
  state.textContent = stats.state.replace("_", " ");
  state.className = "badge " + (CLASSES[stats.state] || "dim");
  const counts = Object.entries(stats.documents.byModel).map(([model, count]) => fact(model, count));
  byId("stats").replaceChildren(
    fact("Documents", stats.documents.total),
    fact("Not yet indexed", stats.documents.pending),
    fact("Model", stats.model),
    fact("Dimensions", stats.dims),
    fact("Generation", stats.generation),
    fact("Repairs", stats.repairs),
    ...(counts.length > 1 ? counts : []),
  );
  byId("advice").textContent = stats.advice || "";
  byId("progress-box").hidden = !stats.progress;
  if (stats.progress) {
    byId("progress").max = Math.max(stats.progress.total, 1);
    byId("progress").value = stats.progress.done;
    const into = stats.replacing ? "Copying into generation " + stats.replacing.generation : "Re-indexing";
    const failed = stats.progress.failed ? ", " + stats.progress.failed + " that the model never takes" : "";
    byId("progress-text").textContent =
      into + ": " + stats.progress.done + " of " + stats.progress.total + " documents" + failed;
  }
}

function facts(found) {
  const fields = Object.entries(found.metadata || {}).map(([name, value]) => name + ": " + value);
  const tags = (found.tags || []).length ? ["tags: " + found.tags.join(", ")] : [];
  return [...tags, ...fields, ...(found.active === false ? ["inactive"] : [])].join(" · ");
}

function opener(id, text) {
  const button = element("button", text, "link");
  button.type = "button";
  button.addEventListener("click", () => openDocument(id));
  return button;
}

function hitItem(hit) {
  const item = element("li");
  const title = element("h3");
  title.append(opener(hit.id, hit.title || hit.id));
  const score = "score " + hit.score.toFixed(3) + " · " + hit.id;
  item.append(title, element("p", [score, facts(hit)].filter(Boolean).join(" · "), "meta"));
  item.append(element("p", hit.body, "body short"));
  return item;
}

function recentItem(found) {
  const item = element("li");
  const when = found.indexedAt ? new Date(found.indexedAt).toLocaleString() : "";
  const state = [found.state, found.active ? "" : "inactive", when].filter(Boolean).join(" · ");
  item.append(opener(found.id, found.id), element("p", state, "meta"));
  return item;
}

async function openDocument(id) {
  try {
    const found = await api("/v1/docs/" + encodeURIComponent(id));
    byId("document-title").textContent = found.title || found.id;
    byId("document-meta").textContent = [found.id, found.state, facts(found)].filter(Boolean).join(" · ");
    byId("document-body").textContent = found.body ?? "Its text can't be read yet.";
    byId("document").showModal();
    complain(null);
  } catch (error) {
    complain(error);
  }
}

function condition(input) {
  if (input.dataset.type === "range") {
    const bounds = [...input.querySelectorAll("input")].filter((each) => each.value !== "");
    return Object.fromEntries(bounds.map((each) => [each.dataset.operator, Number(each.value)]));
  }
  if (input.value === "") return {};
  return { $eq: input.dataset.type === "json" ? JSON.parse(input.value) : input.value };
}

function asked() {
  const filter = {};
  for (const input of document.querySelectorAll("[data-field]")) {
    const wanted = condition(input);
    if (Object.keys(wanted).length) filter[input.dataset.field] = wanted;
  }
  const tags = byId("tags").value.split(",").map((tag) => tag.trim()).filter(Boolean);
  return {
    query: byId("query").value,
    topK: Number(byId("top-k").value),
    active: JSON.parse(byId("active").value),
    filter,
    tags,
  };
}

async function search(event) {
  event.preventDefault();
  byId("found").textContent = "Searching…";
  try {
    const { hits } = await api("/v1/search", asked());
    byId("hits").replaceChildren(...hits.map(hitItem));
    byId("found").textContent = hits.length === 1 ? "1 document found" : hits.length + " documents found";
    complain(null);
  } catch (error) {
    byId("hits").replaceChildren();
    byId("found").textContent = "";
    complain(error);
  }
}

async function refresh() {
  const [stats, listed] = await Promise.all([api("/v1/stats"), api("/v1/docs?order=recent&limit=20")]);
  showStats(stats);
  // Not while something in it has the focus: replacing it would lose the place.
  if (!byId("recent").contains(document.activeElement)) {
    byId("recent").replaceChildren(...listed.documents.map(recentItem));
  }
}

async function tick() {
  if (key !== null && !document.hidden) await refresh().catch(complain);
  if (key !== null) timer = setTimeout(tick, REFRESH_MS);
}

async function connect(event) {
  event.preventDefault();
  key = byId("key").value.trim();
  byId("key").value = "";
  try {
    await refresh();
    complain(null);
    byId("connected").hidden = false;
    byId("forget-box").hidden = false;
    byId("query").focus();
    clearTimeout(timer);
    timer = setTimeout(tick, REFRESH_MS);
  } catch (error) {
    forget();
    complain(error);
  }
}

function forget() {
  key = null;
  clearTimeout(timer);
  byId("connected").hidden = true;
  byId("forget-box").hidden = true;
  for (const id of ["hits", "recent", "stats"]) byId(id).replaceChildren();
  byId("found").textContent = "";
  byId("document-body").textContent = "";
  byId("state").textContent = "not connected";
  byId("state").className = "badge dim";
  complain(null);
  byId("key").focus();
}

byId("key-form").addEventListener("submit", connect);
byId("search-form").addEventListener("submit", search);
byId("forget").addEventListener("click", forget);
byId("close").addEventListener("click", () => byId("document").close());
