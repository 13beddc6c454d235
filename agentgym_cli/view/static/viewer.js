// Keys, more of a text or of the turns, replay, and fresh figures of a live run. All text comes as HTML that the server has escaped; it is
// parsed as a document of its own and never assigned as markup, and the page's policy lets no script in it run.
"use strict";
(() => {
  const SECONDS = 4;
  const PLAY_MS = 1200;
  const root = document.body.dataset.root;
  const all = (what, where = document) => [...where.querySelectorAll(what)];
  const one = (what, where = document) => where.querySelector(what);

  // A page of this server as a document; null where it cannot be had, or says why it cannot and that is not wanted.
  const fetched = (address, refusals = false) => new Promise((done) => {
    const request = new XMLHttpRequest();
    request.open("GET", address);
    request.responseType = "document";
    request.onload = () => done(refusals || request.status === 200 ? request.responseXML : null);
    request.onerror = () => done(null);
    request.send();
  });

  // The line or turn that keys move.
  const lines = () => all("article.turn:not(.later)").concat(all("tr.line"));
  let here = -1;
  const go = (place, scroll = true) => {
    const found = lines();
    if (!found.length) return;
    here = Math.max(0, Math.min(place, found.length - 1));
    all(".here").forEach((each) => each.classList.remove("here"));
    found[here].classList.add("here");
    if (!scroll) return;
    found[here].scrollIntoView({block: "nearest"});
    if (found[here].matches(".turn")) found[here].focus({preventScroll: true});
    remember(found[here]);
  };
  const remember = (line) => {
    if (line.matches(".turn")) history.replaceState(null, "", `#${line.id}`);
  };

  // Replay: turns behind the one that is marked are not there yet.
  const replay = one("#replay");
  let playing = null;
  const replaying = () => document.body.classList.contains("replay");
  const cover = () => {
    const turns = all("article.turn");
    const now = turns.findIndex((each) => each.classList.contains("here"));
    turns.forEach((each, place) => each.classList.toggle("later", replaying() && place > now));
  };
  const stop = () => { clearInterval(playing); playing = null; };
  const start = (on) => {
    stop();
    document.body.classList.toggle("replay", on);
    replay.setAttribute("aria-pressed", String(on));
    const address = new URL(location.href);
    if (on) address.searchParams.set("replay", "on"); else address.searchParams.delete("replay");
    history.replaceState(null, "", address);
    all(".later").forEach((each) => each.classList.remove("later"));
    if (on) { if (here < 0) go(0); cover(); }
  };
  const step = async (by) => {
    if (!replaying()) { go(here + by); return true; }
    const turns = all("article.turn");
    const now = turns.findIndex((each) => each.classList.contains("here"));
    if (now + by >= turns.length && one(".more-turns a")) await more(one(".more-turns a"));
    const every = all("article.turn");
    const next = Math.max(0, Math.min(now + by, every.length - 1));
    every.forEach((each) => each.classList.remove("later"));
    here = next;
    go(next);
    cover();
    return next < every.length - 1 || Boolean(one(".more-turns a"));
  };
  const play = () => {
    if (playing) { stop(); return; }
    playing = setInterval(async () => { if (!(await step(1))) stop(); }, PLAY_MS);
  };

  // More of a text, or more turns, in place of the link to it.
  const more = async (link) => {
    const place = link.parentElement;
    if (place.dataset.asked) return;
    place.dataset.asked = "1";
    const page = await fetched(link.href);
    if (!page || !page.body) { delete place.dataset.asked; return; }
    const inside = [...page.body.firstElementChild.childNodes].map((each) => document.importNode(each, true));
    place.replaceWith(...inside);
    if (replaying()) cover();
    watch();
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".more a, .more-turns a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    more(link);
  });
  const seen = new IntersectionObserver((found) => found.forEach((each) => {
    if (each.isIntersecting && !replaying()) more(one("a", each.target));
  }), {rootMargin: "600px"});
  const watch = () => all(".more-turns").forEach((each) => seen.observe(each));

  // A live run: the page is fetched again when the store has changed and somebody looks. Other pages say that it has.
  let asking = false;
  const fresh = async () => {
    if (asking || document.hidden) return;
    asking = true;
    try {
      const answer = await fetch(`${root}/state.json`);
      if (!answer.ok) throw new Error(String(answer.status));
      const {stamp, said} = await answer.json();
      const changed = stamp !== document.body.dataset.stamp;
      if (changed && document.body.dataset.live !== undefined && !busy()) await renew();
      else say(changed ? `${said}; it has changed since this page was made` : said);
    } catch {
      say("the server does not answer");
    } finally {
      asking = false;
    }
  };
  const say = (words) => { const place = one("#standing"); if (place && place.textContent !== words) place.textContent = words; };
  const busy = () => document.activeElement.matches("input, select") || String(getSelection()) !== "";
  // What was chosen in a form and not sent yet, by name.
  const altered = (each) => each.options ? [...each.options].some((option) => option.selected !== option.defaultSelected)
    : each.type === "radio" ? each.checked && !each.defaultChecked : each.value !== each.defaultValue;
  const unsent = () => new Map(all("main input, main select").filter(altered).map(({name, value}) => [name, value]));
  const renew = async () => {
    const page = await fetched(location.href, true);
    if (!page || !one("main", page)) return;
    const open = all("main details").map((each) => each.open);
    const focused = document.activeElement.getAttribute("href");
    const chosen = unsent();
    one("main").replaceChildren(...[...one("main", page).childNodes].map((each) => document.importNode(each, true)));
    all("main details").forEach((each, place) => { each.open = open[place] ?? each.open; });
    all("main input, main select").forEach((each) => {
      if (!chosen.has(each.name)) return;
      if (each.type === "radio") each.checked = each.value === chosen.get(each.name); else each.value = chosen.get(each.name);
    });
    if (focused) one(`main a[href="${CSS.escape(focused)}"]`)?.focus({preventScroll: true});
    document.body.dataset.stamp = page.body.dataset.stamp;
    say(one("#standing", page).textContent);
    if (here >= 0) go(here, false);
  };

  // Filters that are empty are not part of the address.
  document.addEventListener("submit", ({target: form}) => {
    if (!form.matches("form.filters")) return;
    all("input, select", form).forEach((each) => { if (each.value === "") each.disabled = true; });
    ["sort:schedule", "order:up"].forEach((pair) => {
      const [name, value] = pair.split(":");
      if (form.elements[name]?.value === value) form.elements[name].disabled = true;
    });
  });
  addEventListener("pageshow", () => all("form.filters :disabled").forEach((each) => { each.disabled = false; }));

  const follow = (key) => {
    const link = one(`a[data-key="${key}"]`) ?? (key === "n" ? one('a[rel="next"]') : key === "p" ? one('a[rel="prev"]') : null);
    if (link) location.assign(link.href);
  };
  // In a list: the next line that failed; behind the last one the next page, at its first.
  const failure = (by) => {
    const found = lines();
    for (let place = here + by; place >= 0 && place < found.length; place += by) {
      if (found[place].dataset.failure !== undefined) { go(place); return true; }
    }
    return false;
  };
  const onward = (by) => {
    if (one("a[data-key]")) { follow(by > 0 ? "f" : "F"); return; }
    if (failure(by)) return;
    const link = one(by > 0 ? 'main a[rel="next"]' : 'main a[rel="prev"]');
    if (link) location.assign(`${link.href}#${by > 0 ? "failure" : "last-failure"}`);
    else say("there is no further failure in this list");
  };
  const KEYS = {
    j: () => step(1),
    k: () => step(-1),
    n: () => follow("n"),
    p: () => follow("p"),
    f: () => onward(1),
    F: () => onward(-1),
    r: () => replay && start(!replaying()),
    " ": () => replaying() && play(),
    "/": () => one('input[name="text"]')?.focus(),
    "?": () => { const keys = one("#keys"); keys.hidden = !keys.hidden; },
    Escape: () => { one("#keys").hidden = true; if (replaying()) start(false); },
    Enter: () => (one("tr.here [data-open]") ?? one("tr.here a"))?.click(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if ((event.key === "Enter" || event.key === " ") && event.target.matches("a, button, summary")) return;
    const act = KEYS[event.key];
    if (!act || (event.key === " " && !replaying())) return;
    event.preventDefault();
    act();
  });
  replay?.addEventListener("click", () => start(!replaying()));
  const named = lines().findIndex((each) => each.id && `#${each.id}` === location.hash);
  if (named >= 0) go(named, false);
  if (replay && new URL(location.href).searchParams.get("replay") === "on") start(true);
  if (location.hash === "#last-failure") here = lines().length;
  if (/^#(last-)?failure$/.test(location.hash) && !failure(location.hash === "#failure" ? 1 : -1)) {
    here = -1;
    say("no failure on this page; the same key goes on");
  }
  watch();
  setInterval(fresh, 1000 * SECONDS);
})();
