// Zoom in time: drag across a picture, or use its buttons. Pictures side by side move together.
// No less-than sign and no ampersand stand here, so that the page is well-formed XML.
document.addEventListener("DOMContentLoaded", () => {
  const groups = new Map();
  for (const inner of document.querySelectorAll("svg.zoom")) {
    const figure = inner.closest("figure"), place = inner.closest(".pair") ?? figure;
    const labels = [...inner.parentNode.querySelectorAll(".tick.mid")];
    const number = (name) => Number(inner.getAttribute(name));
    const [left, width] = [number("x"), number("width")];
    const ticks = labels.map((label) => {
      return { label, text: label.textContent, share: (label.getAttribute("x") - left) / width };
    });
    const axis = [number("data-from"), number("data-to")];
    const one = { inner, ticks, axis, left, width, top: number("y"), height: number("height") };
    groups.set(place, [...(groups.get(place) ?? []), one]);
  }
  for (const [place, pictures] of groups) {
    let from = 0, to = 1;
    const show = (first, last) => {
      const length = Math.min(1, Math.max(1e-4, last - first));
      from = Math.min(1 - length, Math.max(0, first));
      to = from + length;
      for (const { inner, ticks, axis, left, width, top, height } of pictures) {
        const view = [left + from * width, top, length * width, height];
        inner.setAttribute("viewBox", view.join(" "));
        const span = axis[1] - axis[0];
        const digits = Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(span * length))));
        for (const { label, text, share } of ticks) {
          const value = axis[0] + span * (from + share * length);
          label.textContent = length === 1 ? text : value.toFixed(digits);
        }
      }
      buttons[1].disabled = buttons[4].disabled = length === 1;
      buttons[2].disabled = from === 0;
      buttons[3].disabled = to >= 1;
    };
    const around = (factor) => {
      const middle = (from + to) / 2, half = ((to - from) * factor) / 2;
      show(middle - half, middle + half);
    };
    const along = (share) => show(from + share * (to - from), to + share * (to - from));
    const does = {
      "Zoom in": () => around(0.5),
      "Zoom out": () => around(2),
      "Earlier": () => along(-0.5),
      "Later": () => along(0.5),
      "All": () => show(0, 1),
    };
    const controls = document.createElement("div");
    controls.className = "controls";
    controls.setAttribute("role", "group");
    controls.setAttribute("aria-label", "Zoom in time");
    const buttons = Object.entries(does).map(([name, action]) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.addEventListener("click", action);
      controls.append(button);
      return button;
    });
    place.before(controls);
    for (const { inner, left, width } of pictures) {
      const outer = inner.parentNode;
      const share = (event) => {
        const box = outer.getBoundingClientRect();
        const x = ((event.clientX - box.left) / box.width) * outer.viewBox.baseVal.width;
        return from + ((x - left) / width) * (to - from);
      };
      let begun = null;
      outer.addEventListener("pointerdown", (event) => {
        begun = event.pointerType === "mouse" ? share(event) : null;
        if (begun !== null) event.preventDefault();
      });
      outer.addEventListener("pointerup", (event) => {
        if (begun === null) return;
        const [first, last] = [begun, share(event)].sort((a, b) => a - b);
        begun = null;
        if (last - first > 0.01 * (to - from)) show(first, last);
      });
      outer.addEventListener("dblclick", () => show(0, 1));
    }
    show(0, 1);
  }
});
