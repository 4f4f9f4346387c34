// The step, and the number that is kept in sight, stand in the page's address: for a link, and for the way back.

const WAIT = 250; // milliseconds, so that a key held down leaves one address

// isNew: the browser's way back leads to the address before.
export function remember(app, isNew) {
  if (app.isReturning) return;
  clearTimeout(app.address);
  app.address = setTimeout(() => setAddress(addressOf(app), isNew && location.hash !== ""), WAIT);
}

function addressOf({ step, pinned }) {
  const place = pinned ? [pinned.what, pinned.name, pinned.flat] : [];
  return `#${[step.number + 1, ...place].map(encodeURIComponent).join("/")}`;
}

function setAddress(address, isNew) {
  if (location.hash === address) return;
  try {
    if (isNew) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  } catch {
    // a page inside another one may not have an address of its own
  }
}

function partsOf(address) {
  try {
    return address.slice(1).split("/").map(decodeURIComponent);
  } catch {
    return []; // a "%" with no code behind it
  }
}

// Show what the address says: a step, or a number of it. Whether it says one.
export function goAddress(app) {
  const [number, what, name, flat] = partsOf(location.hash);
  const step = app.model.steps[Number(number) - 1];
  if (!step) return false;
  clearTimeout(app.address);
  app.isReturning = true;
  app.go(step.number);
  const cell = what && app.cellOf({ call: step.call.id, what, name, flat: Number(flat) });
  if (cell) app.pin(cell, true);
  app.isReturning = false;
  return true;
}
