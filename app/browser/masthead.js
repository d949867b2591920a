// Above the tabs: how the page looks, the keys, and the address of the view. The value is what Python says of the
// address, as SettingsInAddress.hear wants it.

const bar = element.querySelector(".lens-masthead");
const notes = element.querySelector(".lens-notes");
new Modes(bar.querySelector(".lens-theme"), bar.querySelector(".lens-projecting"));
new Shortcuts(bar.querySelector(".lens-keys"), notes);
const refusals = new Refusals(notes);
const address = new Address(props.tabs, (pairs) => refusals.add(pairs));
new LinkButton(bar.querySelector(".lens-link"), notes, address);
address.settings = new SettingsInAddress(address, () => trigger("submit"));
window.lensAddress = address;
const hear = () => props.value && address.settings.hear(JSON.parse(props.value));
hear();
watch("value", hear);
// Gradio's own event tells of keys in the prompt only, not of what is pasted or dropped.
document.addEventListener("input", ({ target }) => {
  if (target.matches("#prompt textarea")) address.settings.give("prompt", target.value);
});

// The tabs come after this. Their buttons say which is open.
const opened = (tabs) => {
  address.show();
  const look = () => address.opened(tabs.querySelector("[role=tab][aria-selected=true]")?.dataset.tabId);
  new MutationObserver(look).observe(tabs, { subtree: true, attributeFilter: ["aria-selected"] });
};
const seek = new MutationObserver(() => {
  const tabs = document.querySelector("#tabs > .tab-wrapper");
  if (!tabs?.querySelector("[role=tab]")) return;
  seek.disconnect();
  opened(tabs);
});
seek.observe(document.body, { childList: true, subtree: true });
