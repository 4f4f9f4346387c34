// Light or dark: as the reader's system is, as the page around this one says, or as the button is pressed.

import { byId } from "./dom.js";
import { forgetColours } from "./picture.js";

const THEMES = ["light", "dark", "auto"];

// The page around this one sends {theme: one of THEMES}. Whatever else comes is no theme, and nothing more is read.
function themeIn(event) {
  const isFromAround = window.parent !== window && event.source === window.parent;
  const theme = isFromAround && event.data ? event.data.theme : null;
  return THEMES.includes(theme) ? theme : null;
}

// redraw: pictures are drawn in the colours of the theme.
export function followTheme(redraw) {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const recolour = () => {
    forgetColours();
    redraw();
  };
  const wear = (theme) => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    recolour();
  };
  system.addEventListener("change", recolour);
  window.addEventListener("message", (event) => {
    const theme = themeIn(event);
    if (theme) wear(theme);
  });
  byId("theme").addEventListener("click", () => {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
    wear(isDark ? "light" : "dark");
  });
}
