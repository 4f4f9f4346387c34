// Tells the traces within a page which theme the page has: when a trace is loaded, and when the reader changes it.

{
  const traces = [...document.querySelectorAll("iframe.trace")];
  const tell = (trace) => trace.contentWindow.postMessage({ theme: document.body.dataset.theme || "auto" }, "*");
  const tellAll = () => traces.forEach(tell);

  for (const trace of traces) trace.addEventListener("load", () => tell(trace));
  new MutationObserver(tellAll).observe(document.body, { attributeFilter: ["data-theme"] });
  tellAll();
}
