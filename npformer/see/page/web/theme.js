// Light or dark: as the reader's system is, as the page around this one says, or as the button is pressed.

import { byId } from "./dom.js";
import { forgetColours } from "./picture.js";

const THEMES = ["light", "dark", "auto"];

// redraw: pictures are drawn in the colours of the theme.
export function followTheme(redraw) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const recolour = () => {
    forgetColours();
    redraw();
  };
  const wear = (theme) => {
    setTheme(theme);
    recolour();
  };
  system.addEventListener("change", recolour);
  window.addEventListener("message", (event) => {
    const theme = themeIn(event);
    if (theme) wear(theme);
  });
  byId("theme").addEventListener("click", () => wear(isDark(system) ? "light" : "dark"));
}

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function isDark(system) {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : system.matches;
}

// The page around this one sends {theme: one of THEMES}. Whatever else comes is no theme, and nothing more is read.
function themeIn(event) {
  const isFromAround = window.parent !== window && event.source === window.parent;
  const theme = isFromAround && event.data ? event.data.theme : null;
  return THEMES.includes(theme) ? theme : null;
}
