/**
 * The style of the reference page, to be read after the tokens. Scalar's own style is in layers, so whatever stands here wins.
 * Scalar shows on the body which scheme is chosen.
 */
export const referenceStyle = `
:root {
  --scalar-custom-header-height: 3rem;
  --scalar-sidebar-width: 17rem;
}
:root:has(> .light-mode) { color-scheme: light; }
:root:has(> .dark-mode) { color-scheme: dark; }
.light-mode, .dark-mode {
  --scalar-font: var(--sans);
  --scalar-font-code: var(--mono);
  --scalar-radius: var(--radius-badge);
  --scalar-radius-lg: var(--radius-control);
  --scalar-radius-xl: var(--radius-dialog);
  --scalar-color-1: var(--ink);
  --scalar-color-2: var(--soft);
  --scalar-color-3: var(--faint);
  --scalar-color-ghost: var(--faint);
  --scalar-color-disabled: var(--faint);
  --scalar-color-accent: var(--accent);
  --scalar-background-1: var(--ground);
  --scalar-background-2: var(--sunken);
  --scalar-background-3: var(--line);
  --scalar-background-4: var(--line);
  --scalar-background-card: var(--surface);
  --scalar-background-accent: var(--accent-tint);
  --scalar-background-alert: var(--warn-tint);
  --scalar-background-danger: var(--bad-tint);
  --scalar-border-color: var(--line);
  --scalar-scrollbar-color: var(--line);
  --scalar-scrollbar-color-active: var(--edge);
  --scalar-color-green: var(--ok);
  --scalar-color-red: var(--bad);
  --scalar-color-yellow: var(--warn);
  --scalar-color-orange: var(--warn);
  --scalar-color-blue: var(--accent);
  --scalar-color-purple: var(--accent);
  --scalar-color-query: var(--accent);
  --scalar-color-alert: var(--warn);
  --scalar-color-danger: var(--bad);
  --scalar-link-color: var(--accent);
  --scalar-link-color-hover: var(--accent);
  --scalar-link-color-visited: var(--accent);
  --scalar-button-1: var(--accent);
  --scalar-button-1-hover: color-mix(in oklab, var(--accent), var(--ink) 15%);
  --scalar-button-1-color: var(--on-accent);
  --scalar-tooltip-background: var(--ink);
  --scalar-tooltip-color: var(--ground);
  --scalar-shadow-1: none;
  --scalar-shadow-2: 0 0 0 1px var(--line);
  --scalar-sidebar-background-1: var(--ground);
  --scalar-sidebar-color-1: var(--ink);
  --scalar-sidebar-color-2: var(--soft);
  --scalar-sidebar-color-active: var(--accent);
  --scalar-sidebar-border-color: var(--line);
  --scalar-sidebar-item-hover-color: var(--ink);
  --scalar-sidebar-item-hover-background: var(--sunken);
  --scalar-sidebar-item-active-background: var(--accent-tint);
  --scalar-sidebar-search-background: var(--surface);
  --scalar-sidebar-search-color: var(--soft);
  --scalar-sidebar-search-border-color: var(--edge);
}

body { margin: 0; background: var(--ground); color: var(--ink); font: 400 var(--text-14) var(--sans); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }

.bar {
  position: sticky; top: 0; z-index: 10; box-sizing: border-box; height: var(--scalar-custom-header-height);
  display: flex; align-items: center; gap: var(--space-12); padding: 0 var(--space-16);
  border-bottom: 1px solid var(--line); background: var(--ground);
}
.bar a { display: flex; align-items: center; gap: var(--space-8); color: inherit; font-weight: 600; text-decoration: none; }
.bar span { color: var(--soft); padding-left: var(--space-12); border-left: 1px solid var(--line); }

/* A list that scrolls within the page is out of the keyboard's reach: this one is shown whole, its lines wrapped. */
#reference .endpoints-card .scalar-card-content { max-height: none; overflow: visible; }
#reference .endpoints { overflow: visible; }
#reference .endpoint { white-space: normal; }
#reference .endpoint-path { overflow-wrap: anywhere; }
/* The name of a button that copies, which a screen reader gets without hovering. */
#reference .scalar-code-copy .sr-only > span { display: inline; }

#first-page { box-sizing: border-box; max-width: 1540px; margin: 0 auto; padding: var(--space-24) 60px 0; font: 400 var(--text-14) var(--sans); }
#first-page h1 { margin: 0; font: 600 var(--text-24) var(--sans); letter-spacing: -0.01em; }
#first-page h2 { margin: 0; font: 600 var(--text-16) var(--sans); }
#first-page p { margin: var(--space-4) 0 0; color: var(--soft); text-wrap: pretty; }
#first-page p + p { margin-top: var(--space-8); }
#first-page p + pre { margin-top: var(--space-8); }
#first-page a { color: var(--accent); text-decoration: underline; }
#first-page code, #first-page pre { font: 400 var(--text-13) var(--mono); overflow-wrap: anywhere; }
#first-page p code { color: var(--ink); }
#first-page pre {
  margin: 0; padding: var(--space-8) var(--space-12); border-radius: var(--radius-control);
  background: var(--sunken); color: var(--ink); white-space: pre-wrap;
}
#first-page .head, #first-page .step { display: grid; gap: var(--space-8) var(--space-32); align-items: baseline; }
#first-page .step { padding: var(--space-16) 0; border-top: 1px solid var(--line); }
#first-page .head { padding-bottom: var(--space-16); }
#first-page .head > *, #first-page .step > * { min-width: 0; }
#first-page figure, #first-page fieldset { min-width: 0; margin: 0; padding: 0; border: 0; }
#first-page fieldset + figure { margin-top: var(--space-12); }
#first-page figcaption { margin-bottom: var(--space-4); color: var(--soft); font: 400 var(--text-12) var(--sans); }
#first-page figcaption span { display: inline-block; padding: 0 var(--space-4); border-radius: var(--radius-badge); font-weight: 600; font-variant-numeric: tabular-nums; }
#first-page .ok { background: var(--ok-tint); color: var(--ok); }
#first-page .bad { background: var(--bad-tint); color: var(--bad); }
#first-page .primary {
  padding: var(--space-8) var(--space-16); border: 0; border-radius: var(--radius-control);
  background: var(--accent); color: var(--on-accent); font: 500 var(--text-14) var(--sans); cursor: pointer;
}
#first-page .tabs { display: flex; gap: var(--space-16); margin-bottom: var(--space-8); }
#first-page .tabs label { padding-bottom: var(--space-4); border-bottom: 2px solid transparent; color: var(--soft); font-weight: 500; cursor: pointer; }
#first-page .tabs label:has(:checked) { border-color: var(--accent); color: var(--ink); }
#first-page .tabs label:has(:focus-visible) { outline: 2px solid var(--accent); outline-offset: 2px; }
.unseen, #first-page .tabs input { position: absolute; width: 1px; height: 1px; margin: 0; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
#first-page .samples pre { display: none; }
#first-page .samples:has([value=curl]:checked) [data-language=curl],
#first-page .samples:has([value=fetch]:checked) [data-language=fetch],
#first-page .samples:has([value=sdk]:checked) [data-language=sdk] { display: block; }

/* Where the first page stands once Scalar is there, so that nothing jumps. */
body > #first-page { margin-top: 50px; }
@media (min-width: 1000px) {
  #first-page .head, #first-page .step { grid-template-columns: 4fr 7fr; }
  body > #first-page { margin: 0 0 0 var(--scalar-sidebar-width); }
}
@media (max-width: 999px) {
  :root { --scalar-custom-header-height: 0px; }
  .bar { position: static; height: 3rem; }
  #first-page { padding-inline: var(--space-24); }
  #first-page pre, #first-page pre code { font: 400 var(--text-12) var(--mono); }
}
@media (pointer: coarse) {
  #first-page .tabs label { padding-block: var(--space-12); }
  #first-page .primary { min-height: 44px; }
}
@media (scripting: none) {
  body > #first-page { margin: 0 auto; }
  #sign-in { display: none; }
}
`
