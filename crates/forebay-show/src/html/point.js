// Reading a picture by keys: where it has the focus, arrows go from one to the next of what says something when it is
// pointed at, and a line below the picture says it; a tap does so too.
// No less-than sign and no ampersand stand here, so that the page is well-formed XML.
document.addEventListener("DOMContentLoaded", () => {
  // A picture that is zoomed is read where it is shown: a part by any of it, a point by where it is.
  const isInView = (point) => {
    const view = point.ownerSVGElement.viewBox.baseVal, box = point.getBBox();
    const end = Math.min(box.x + box.width, view.x + view.width);
    return end - Math.max(box.x, view.x) > (box.width > 0.1 ? 0 : -0.02);
  };
  for (const figure of document.querySelectorAll("figure")) {
    const points = [...figure.querySelectorAll("title")].map((title) => title.parentNode);
    const all = points.filter((point) => point.localName !== "svg");
    const place = figure.querySelector("figcaption");
    if (all.length === 0 || place === null) continue;
    const said = document.createElement("p");
    said.className = "pointed";
    said.setAttribute("role", "status");
    place.append(said);
    let at = null;
    const leave = (text) => {
      if (at !== null) at.classList.remove("at");
      at = null;
      said.textContent = text;
    };
    const go = (point) => {
      leave(point.querySelector("title").textContent);
      at = point;
      at.classList.add("at");
      at.scrollIntoView({ block: "nearest", inline: "nearest" });
    };
    figure.addEventListener("focus", () => {
      if (at === null) leave("← and → go from one to the next");
    });
    figure.addEventListener("blur", () => leave(""));
    figure.addEventListener("keydown", (event) => {
      // A picture is there in two shapes, one of which is shown.
      const drawn = all.filter((point) => point.getClientRects().length !== 0);
      const shown = drawn.filter(isInView);
      const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
      if (step === undefined || event.target !== figure || shown.length === 0) return;
      event.preventDefault();
      const next = shown.indexOf(at) + (at === null ? Math.max(step, 0) || 1 : step);
      go(shown[Math.min(shown.length - 1, Math.max(0, next))]);
    });
    for (const point of all) point.addEventListener("click", () => go(point));
  }
});
