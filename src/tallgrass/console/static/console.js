// The console's own script: live figures, the theme, and coming back by itself.
// Everything can be read without it.
"use strict";

(() => {
  const root = document.documentElement;
  const trouble = document.querySelector("[data-trouble]");

  // --- theme -----------------------------------------------------------------------------------

  const themes = ["system", "light", "dark"];
  const kept = () => {
    try { return localStorage.getItem("tallgrass-theme") || "system"; } catch { return "system"; }
  };
  const wear = (theme) => {
    if (theme === "system") delete root.dataset.theme; else root.dataset.theme = theme;
    const button = document.querySelector("[data-theme-switch]");
    if (!button) return;
    button.hidden = false;
    button.textContent = { system: "◐", light: "○", dark: "●" }[theme];
    button.title = "Theme: " + theme;
    button.setAttribute("aria-label", button.title);
  };
  wear(kept());
  document.querySelector("[data-theme-switch]")?.addEventListener("click", () => {
    const next = themes[(themes.indexOf(kept()) + 1) % themes.length];
    try { localStorage.setItem("tallgrass-theme", next); } catch { /* worn until the next page */ }
    wear(next);
  });

  // --- where there is little room: filters are folded, and the place one is at is in sight ---------

  const narrow = matchMedia("(max-width: 48rem)");
  const fold = () => {
    for (const part of document.querySelectorAll("[data-folds]")) part.open = !narrow.matches;
  };
  fold();
  narrow.addEventListener("change", fold);
  for (const here of document.querySelectorAll("nav [aria-current]")) {
    const list = here.closest("nav");
    const [outer, inner] = [list, here].map((each) => each.getBoundingClientRect());
    list.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
  }

  // --- a page that could not be made, or that hears no more, comes back when it can ----------------

  const comeBack = (address) => {
    const look = async () => {
      try {
        const answer = await fetch(address, { cache: "no-store" });
        if (![429, 502, 503, 504].includes(answer.status)) { location.reload(); return; }
      } catch { /* the console itself is away; go on asking */ }
      setTimeout(look, 5000);
    };
    setTimeout(look, 5000);
  };
  const reload = document.querySelector("[data-reload]");
  if (reload) comeBack(reload.dataset.reload);

  // --- documents can be copied ---------------------------------------------------------------------

  for (const button of navigator.clipboard ? document.querySelectorAll("[data-copy]") : []) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = document.getElementById(button.dataset.copy)?.textContent ?? "";
      try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; }
      catch { button.textContent = "Not copied"; }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  // --- live figures ------------------------------------------------------------------------------

  const say = (text) => {
    if (!trouble) return;
    trouble.hidden = text === "";
    if (trouble.textContent !== text) trouble.textContent = text;
  };

  const renew = async (part) => {
    // Nothing is taken from under somebody's hands.
    if (part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")) return;
    const answer = await fetch(part.dataset.live, { headers: { Accept: "text/html" } });
    if (answer.redirected) { location.reload(); return; }
    if (!answer.ok) return;
    const made = new DOMParser().parseFromString(await answer.text(), "text/html").body;
    const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    part.replaceChildren(...made.childNodes);
    if (focused) part.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    part.dataset.renewed = String(Number(part.dataset.renewed || 0) + 1);
  };

  const address = document.body.dataset.events;
  const parts = [...document.querySelectorAll("[data-live]")];
  if (address && parts.length && "EventSource" in window) {
    const source = new EventSource(address);
    source.addEventListener("figures", () => {
      say("");
      for (const part of parts) renew(part).catch(() => { /* the next event tries again */ });
    });
    source.addEventListener("trouble", (event) => {
      let told = "";
      try { told = JSON.parse(event.data).detail || ""; } catch { /* said without it */ }
      say("The database does not answer. " + told);
    });
    source.addEventListener("error", () => {
      say("The console does not answer. What you see may be old; it is tried again.");
      // Any answer but 200 ends the source for good; the page leads on, to the sign-in if need be.
      if (source.readyState === EventSource.CLOSED) comeBack(location.href);
    });
    addEventListener("pagehide", () => source.close());
  }
})();
