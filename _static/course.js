/* What scrolls sideways in a box of its own can be reached by keyboard; what doesn't scroll is no
   stop on the way. (The theme does so for code and tables, not for formulas.) */
(() => {
  const look = () => {
    for (const box of document.querySelectorAll(".katex-display")) {
      if (box.scrollWidth > box.clientWidth + 1) {
        box.tabIndex = 0;
        box.setAttribute("role", "group");
        box.setAttribute("aria-label", "Formula, scrolls sideways");
      } else {
        for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
      }
    }
  };
  const start = () => {
    look();
    new ResizeObserver(look).observe(document.body);
    document.addEventListener("toggle", look, true);
    document.fonts?.ready.then(look);
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
