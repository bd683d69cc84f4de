"use strict";
(() => {
  const PAGE = 50;
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const entries = data.entries.map((entry, place) => ({ ...entry, place }));
  const unpacked = new Map();
  let haystacks = null;
  let chosen = entries;
  let page = 0;
  let asked = 0;

  const element = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const chunk = (number) => {
    if (!unpacked.has(number)) {
      const bytes = Uint8Array.from(atob(data.chunks[number]), (c) => c.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      unpacked.set(number, new Response(stream).json());
    }
    return unpacked.get(number);
  };

  const detailOf = async (entry) => {
    const found = await chunk(Math.floor(entry.place / data.chunk_size));
    return found[entry.place % data.chunk_size];
  };

  const block = (into, title, text) => {
    if (text === null || text === undefined || text === "") return;
    into.append(element("h3", "", title));
    const shown = element("p", "text", text);
    shown.dir = "auto";
    into.append(shown);
  };

  const fold = (label, value, fill, bad) => {
    const made = element("details");
    const summary = element("summary", "");
    if (value !== null && value !== undefined && value !== "") {
      summary.append(element("span", bad ? "value bad" : "value", String(value)));
    }
    for (const part of label) summary.append(part);
    made.append(summary);
    let filled = false;
    made.addEventListener("toggle", async () => {
      if (!made.open || filled) return;
      filled = true;
      const body = element("div");
      made.append(body);
      await fill(body);
    });
    return made;
  };

  const words = (text, className) => {
    const made = element("span", className || "", text);
    made.dir = "auto";
    return made;
  };

  const attempt = (found) => {
    const label = [words(`attempt ${found.attempt}: ${found.outcome || "open"}`), words(`  ${found.custom_id}`, "soft")];
    return fold(label, null, (body) => {
      for (const [name, value] of found.facts) {
        const line = element("div", "soft");
        line.append(words(`${name}: ${value}`));
        body.append(line);
      }
      block(body, "the provider's words", found.message);
      block(body, "content as it came", found.content);
    });
  };

  const request = (found) => {
    const failed = found.status !== "scored";
    return fold([words(found.label)], failed ? found.status : found.verdict, (body) => {
      block(body, "reason", found.reason);
      block(body, "noted while reading", found.notes.join("; "));
      for (const one of found.attempts) body.append(attempt(one));
      block(body, "criterion", found.criterion);
    }, failed);
  };

  const fillItem = async (entry, body) => {
    const detail = await detailOf(entry);
    for (const one of detail.requests) body.append(request(one));
    for (const [title, text] of detail.texts) block(body, title, text);
    block(body, "noted about the input", detail.notes.join("; "));
  };

  const item = (entry) => {
    const label = [words(entry.id), words(`  ${entry.labels.join(" / ")}`, "soft")];
    if (entry.state) label.push(words(`  ${entry.state}`, "bad"));
    const made = fold(label, entry.shown, (body) => fillItem(entry, body), entry.value === null);
    made.id = `item-${entry.index}`;
    return made;
  };

  const draw = () => {
    const pages = Math.max(1, Math.ceil(chosen.length / PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    at("list").replaceChildren(...chosen.slice(page * PAGE, (page + 1) * PAGE).map(item));
    at("place").textContent = `page ${page + 1} of ${pages}`;
    at("previous").disabled = page === 0;
    at("next").disabled = page === pages - 1;
    const left = data.left_out ? ` ${data.left_out} items did not fit on this page: iwb-batch show ${data.run} INDEX.` : "";
    at("found").textContent = `${chosen.length} of ${entries.length} items.${left}`;
  };

  const strings = (value) => {
    if (typeof value === "string") return [value];
    return value && typeof value === "object" ? Object.values(value).flatMap(strings) : [];
  };

  const foldCase = (text) => String(text).normalize("NFC").toLowerCase();

  const searchable = async () => {
    if (haystacks === null) {
      haystacks = [];
      for (let number = 0; number < data.chunks.length; number += 1) {
        for (const detail of await chunk(number)) haystacks.push(foldCase(strings(detail).join("\n")));
      }
    }
    return haystacks;
  };

  const kept = { all: () => true, incomplete: (e) => e.value === null, again: (e) => e.again };
  const orders = {
    index: (a, b) => a.place - b.place,
    low: (a, b) => (a.value ?? 1e9) - (b.value ?? 1e9) || a.place - b.place,
    high: (a, b) => (b.value ?? -1e9) - (a.value ?? -1e9) || a.place - b.place,
  };

  const choose = async () => {
    const mine = (asked += 1);
    const wanted = foldCase(at("search").value.trim());
    let found = entries.filter(kept[at("show").value]);
    if (wanted) {
      at("found").textContent = "searching ...";
      const all = await searchable();
      if (mine !== asked) return;
      const labels = (e) => foldCase(`${e.index} ${e.id} ${e.labels.join(" ")} ${e.state}`);
      found = found.filter((e) => labels(e).includes(wanted) || all[e.place].includes(wanted));
    }
    chosen = found.sort(orders[at("order").value]);
    page = 0;
    draw();
  };

  let waiting = 0;
  at("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(choose, 200);
  });
  at("controls").addEventListener("submit", (event) => {
    event.preventDefault();
    choose();
  });
  at("show").addEventListener("change", choose);
  at("order").addEventListener("change", choose);
  at("previous").addEventListener("click", () => { page -= 1; draw(); });
  at("next").addEventListener("click", () => { page += 1; draw(); });

  const follow = () => {
    const wanted = /^#item-([0-9]+)$/.exec(location.hash);
    const place = wanted ? chosen.findIndex((e) => String(e.index) === wanted[1]) : -1;
    if (place < 0) return;
    page = Math.floor(place / PAGE);
    draw();
    const shown = document.getElementById(`item-${wanted[1]}`);
    shown.open = true;
    shown.scrollIntoView();
  };
  addEventListener("hashchange", follow);
  draw();
  follow();
})();
