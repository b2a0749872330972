import { createHash } from 'node:crypto'
import { fontFiles } from '@platform/look/font'
import { icon } from '@platform/look/mark'
import { tokensCss } from '@platform/look/tokens'
import type { Deps } from '../deps.ts'
import type { Endpoint } from '../http/app.ts'
import { type Document, documentOf } from '../http/document.ts'

/** Colours, sizes of text and spaces are tokens of packages/look. */
const css = `${tokensCss}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
html { scroll-padding-bottom: 8rem; }
body {
  margin: 0;
  min-height: 100dvh;
  display: grid;
  grid-template-columns: minmax(0, 1fr);
  grid-template-rows: 1fr auto;
  justify-items: center;
  background: var(--ground);
  color: var(--ink);
  font: 400 var(--text-16) var(--sans);
  overflow-wrap: anywhere;
}
main {
  align-self: center;
  width: min(27rem, 100% - 2 * var(--space-16));
  margin: var(--space-32) 0;
  padding: var(--space-32);
  background: var(--surface);
  border: 1px solid var(--line);
  border-radius: var(--radius-control);
}
main.wide { align-self: start; width: min(44rem, 100% - 2 * var(--space-16)); }
footer { padding: 0 var(--space-16) var(--space-24); color: var(--soft); font: 400 var(--text-13) var(--sans); text-align: center; }
header { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: center; gap: var(--space-4) var(--space-16); margin: 0 0 var(--space-24); }
.brand { display: inline-flex; align-items: center; gap: var(--space-8); margin: 0; font-weight: 600; color: inherit; text-decoration: none; }
svg.mark { flex: none; width: 1.25rem; height: 1.25rem; forced-color-adjust: none; }
h1 { margin: 0 0 var(--space-8); font: 600 var(--text-24) var(--sans); letter-spacing: -0.01em; }
h2 { margin: var(--space-24) 0 0; font: 600 var(--text-16) var(--sans); }
h3 { margin: var(--space-16) 0 0; font: 500 var(--text-14) var(--sans); color: var(--soft); }
p { margin: 0 0 var(--space-16); }
.soft { color: var(--soft); }
strong { font-weight: 600; }
a { color: var(--accent); text-underline-offset: 0.2em; }
form { margin: var(--space-24) 0 0; display: grid; grid-template-columns: minmax(0, 1fr); gap: var(--space-16); max-width: 30rem; }
form + p { margin: var(--space-16) 0 0; }
form > p { margin: 0; }
main > :last-child { margin-bottom: 0; }
label, .field { display: grid; gap: var(--space-4); }
label { font: 500 var(--text-14) var(--sans); }
input {
  width: 100%;
  padding: 0.5625rem var(--space-12);
  font: 400 var(--text-16) var(--sans);
  color: inherit;
  background: var(--sunken);
  border: 1px solid var(--edge);
  border-radius: var(--radius-control);
}
input[aria-invalid="true"] { border-color: var(--bad); }
input[type="checkbox"] { width: 1.125rem; height: 1.125rem; margin: 0; accent-color: var(--accent); }
.choice { display: flex; align-items: center; gap: var(--space-8); font-weight: 400; }
.wrong { margin: 0; color: var(--bad); font: 400 var(--text-14) var(--sans); }
.code-entry { font: 600 var(--text-20) var(--mono); letter-spacing: 0.08em; text-transform: uppercase; text-align: center; }
button, a.button {
  width: 100%;
  min-height: 2.75rem;
  padding: var(--space-8) var(--space-16);
  font: 600 var(--text-16) var(--sans);
  color: var(--on-accent);
  background: var(--accent);
  border: 1px solid transparent;
  border-radius: var(--radius-control);
  cursor: pointer;
  overflow-wrap: anywhere;
}
a.button { display: block; text-align: center; text-decoration: none; }
button:hover, a.button:hover { filter: brightness(1.08); }
button.small { width: auto; justify-self: start; min-height: 2.25rem; padding: var(--space-4) var(--space-12); font: 500 var(--text-14) var(--sans); }
button.second { color: var(--ink); background: transparent; border-color: var(--edge); }
button.second:hover { background: var(--sunken); filter: none; }
button.reveal { width: auto; justify-self: end; min-height: 1.75rem; margin-top: calc(-1 * var(--space-8)); padding: 0 var(--space-8); font: 500 var(--text-14) var(--sans); color: var(--accent); background: transparent; }
button.reveal[aria-pressed="true"] { border-color: currentColor; }
@media (pointer: coarse) { button.small, button.reveal { min-height: 2.75rem; } }
.or { display: flex; align-items: center; gap: var(--space-12); color: var(--soft); font: 400 var(--text-14) var(--sans); }
div > .or { margin: 0 0 var(--space-16); }
.or::before, .or::after { content: ""; flex: 1; border-top: 1px solid var(--line); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
main > .decision {
  position: sticky;
  bottom: 0;
  z-index: 1;
  display: flex;
  flex-wrap: wrap;
  gap: var(--space-12);
  max-width: none;
  margin: var(--space-24) calc(-1 * var(--space-32)) calc(-1 * var(--space-32));
  padding: var(--space-16) var(--space-32);
  background: var(--surface);
  border-top: 1px solid var(--line);
  border-radius: 0 0 var(--radius-control) var(--radius-control);
}
.decision button { flex: 1 1 7rem; width: auto; }
.alert {
  margin: var(--space-16) 0 0;
  padding: var(--space-12) var(--space-16);
  color: var(--bad);
  background: var(--bad-tint);
  border: 1px solid transparent;
  border-radius: var(--radius-control);
}
.alert.warn { color: var(--ink); background: var(--warn-tint); }
.alert + p { margin-top: var(--space-16); }
form > .alert { margin: 0; }
form > .alert + p { margin-top: 0; }
.alert > p { margin: 0 0 var(--space-8); }
.alert > :last-child { margin: 0; }
.next {
  display: flex;
  flex-wrap: wrap;
  align-items: baseline;
  justify-content: space-between;
  gap: var(--space-4) var(--space-16);
  margin: var(--space-16) 0 0;
  padding: var(--space-12) var(--space-16);
  background: var(--accent-tint);
  border: 1px solid transparent;
  border-radius: var(--radius-control);
}
.code {
  margin: var(--space-16) 0;
  padding: var(--space-12);
  font: 600 var(--text-24) var(--mono);
  letter-spacing: 0.08em;
  text-align: center;
  background: var(--sunken);
  border: 1px dashed var(--edge);
  border-radius: var(--radius-control);
}
dl { margin: var(--space-16) 0; display: grid; grid-template-columns: auto minmax(0, 1fr); gap: var(--space-4) var(--space-16); font: 400 var(--text-14) var(--sans); }
dt { color: var(--soft); overflow-wrap: normal; }
dd { margin: 0; }
time[tabindex] { border-radius: var(--radius-badge); }
time { position: relative; }
.exact {
  display: none;
  position: absolute;
  z-index: 2;
  top: calc(100% + var(--space-4));
  left: 0;
  width: max-content;
  max-width: min(16rem, 60vw);
  padding: var(--space-4) var(--space-8);
  color: var(--ink);
  background: var(--surface);
  border: 1px solid var(--edge);
  border-radius: var(--radius-badge);
  font: 400 var(--text-13) var(--sans);
  font-variant-numeric: tabular-nums;
}
:is(time:hover, time:focus-visible, :is(a, summary):focus-visible time) > .exact { display: block; }
.row > :nth-child(2) .exact { left: auto; right: 0; }
.dismissed .exact { display: none !important; }
ul { margin: 0; padding: 0; list-style: none; }
ul.scopes { margin: var(--space-8) 0 0; border: 1px solid var(--line); border-radius: var(--radius-control); }
ul.scopes li { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: baseline; gap: 0 var(--space-12); padding: var(--space-8) var(--space-12); font: 400 var(--text-14) var(--sans); }
ul.scopes li > :first-child { flex: 1 1 9rem; }
.rows { margin: var(--space-8) 0 0; border-top: 1px solid var(--line); }
.rows > li { border-bottom: 1px solid var(--line); }
ul.scopes li + li { border-top: 1px solid var(--line); }
.row { display: grid; grid-template-columns: minmax(0, 1fr) auto; align-items: baseline; gap: 0 var(--space-16); padding: var(--space-12) 0; color: inherit; text-decoration: none; }
.row > :nth-child(2) { color: var(--soft); font: 400 var(--text-14) var(--sans); text-align: right; font-variant-numeric: tabular-nums; }
.row > .note { grid-column: 1 / -1; }
.note { color: var(--soft); font: 400 var(--text-14) var(--sans); }
.name { font-weight: 500; }
a.row:hover .name, summary.row:hover .name { text-decoration: underline; text-underline-offset: 0.2em; }
summary { font: 500 var(--text-14) var(--sans); cursor: pointer; }
summary.row { font: 400 var(--text-16) var(--sans); list-style: none; position: relative; padding-left: var(--space-24); }
summary.row::-webkit-details-marker { display: none; }
summary.row::before { content: ""; position: absolute; left: var(--space-4); top: 1.25rem; width: 0.4375rem; height: 0.4375rem; border: solid var(--soft); border-width: 0 1.5px 1.5px 0; transform: rotate(-45deg); }
details[open] > summary.row::before { transform: rotate(45deg); }
details { margin: var(--space-12) 0 0; }
details:has(> summary.row) { margin: 0; }
details:has(> summary.row) > :not(summary) { margin-left: var(--space-24); }
details:has(> summary.row) > :last-child { margin-bottom: var(--space-16); }
details + details { border-top: 1px solid var(--line); padding-top: var(--space-12); }
details > p { margin: var(--space-8) 0 0; }
details > form { margin: var(--space-12) 0 var(--space-8); }
form + details { margin-top: var(--space-24); }
ul.items { margin: var(--space-8) 0 0; display: grid; grid-template-columns: minmax(0, 1fr); gap: var(--space-12); }
ul.items > li { padding: var(--space-12) var(--space-16) var(--space-16); border: 1px solid var(--line); border-radius: var(--radius-control); }
ul.items h2 { margin: 0; display: flex; flex-wrap: wrap; align-items: center; gap: var(--space-4) var(--space-8); }
ul.items dl { margin: var(--space-8) 0 0; gap: 0 var(--space-16); }
ul.items form { margin: var(--space-12) 0 0; }
.entries > li { display: grid; grid-template-columns: minmax(0, 1fr) auto; align-items: center; gap: var(--space-4) var(--space-16); padding: var(--space-8) 0; font: 400 var(--text-14) var(--sans); }
.entries > li + li { border-top: 1px solid var(--line); }
.entries p { margin: 0; }
.entries form { margin: 0; }
.badge { display: inline-block; padding: 0 var(--space-8); font: 500 var(--text-12) var(--sans); line-height: 1.25rem; color: var(--accent); background: var(--accent-tint); border-radius: var(--radius-badge); }
.badge.danger { color: var(--bad); background: var(--bad-tint); }
.badge.good { color: var(--ok); background: var(--ok-tint); }
.empty { margin: var(--space-24) 0; padding: var(--space-24) var(--space-16); text-align: center; color: var(--soft); border: 1px dashed var(--edge); border-radius: var(--radius-control); }
.qr { display: block; width: min(13rem, 100%); margin: var(--space-24) auto; border-radius: var(--radius-control); }
.secret { font: 600 var(--text-16) var(--mono); text-align: center; }
ol.codes { margin: var(--space-16) 0; padding: var(--space-12); list-style: none; display: grid; grid-template-columns: repeat(auto-fit, minmax(min(11.5rem, 100%), 1fr)); gap: var(--space-4) var(--space-16); justify-items: center; font: 600 var(--text-14) var(--mono); background: var(--sunken); border: 1px dashed var(--edge); border-radius: var(--radius-control); }
.takes { display: flex; flex-wrap: wrap; gap: var(--space-8); margin: 0 0 var(--space-16); }
.takes button { flex: 1 1 auto; width: auto; min-height: 2.5rem; padding: var(--space-4) var(--space-8); font: 500 var(--text-14) var(--sans); }
.takes > p { flex: 1 0 100%; margin: 0; }
.takes > p:empty { display: none; }
.after { margin: var(--space-24) 0 0; }
.after + p { margin: var(--space-8) 0 0; }
.back { margin: var(--space-24) 0 0; }
@media (max-width: 30rem) {
  .exact, .row > :nth-child(2) .exact { position: fixed; inset: auto var(--space-16) var(--space-16); width: auto; max-width: none; padding: var(--space-12) var(--space-16); text-align: center; }
  main, main.wide { padding: var(--space-24) var(--space-16); margin: var(--space-16) 0; }
  main > .decision { margin: var(--space-24) calc(-1 * var(--space-16)) calc(-1 * var(--space-24)); padding: var(--space-12) var(--space-16); }
}
@media (forced-colors: active) {
  .alert, .next, .badge, button, a.button { border: 1px solid; }
  /* What is filled elsewhere. */
  button:not(.second, .reveal), a.button { border-width: 3px; }
}
@media print {
  body:has(ol.codes) { background: none; color-scheme: light; }
  main:has(> ol.codes) > :not(ol.codes), main:has(> ol.codes) + footer { display: none; }
  main:has(> ol.codes) { margin: 0; padding: 0; border: 0; align-self: start; justify-self: start; background: none; color: CanvasText; color-scheme: light; }
  main > ol.codes { background: none; border: 0; justify-items: start; font-size: 12pt; }
}
@media (prefers-reduced-motion: no-preference) { button { transition: filter 0.12s, background 0.12s; } }
`

interface Asset {
  name: string
  document: Document
}

const assetOf = (name: string, type: string, content: string | Buffer): Asset => ({
  name,
  document: documentOf(content, { type, cacheControl: 'public, max-age=31536000, immutable' }),
})

const style = assetOf(
  `style.${createHash('sha256').update(css).digest('hex').slice(0, 16)}.css`,
  'text/css; charset=utf-8',
  css,
)

/** What pages load besides the script. Names change with the content, so all may be cached for ever. */
const assets = [
  style,
  assetOf(icon.name, icon.type, icon.text),
  ...fontFiles.map(({ name, type, bytes }) => assetOf(name, type, bytes)),
]

export const stylePath = ({ accountPath }: Pick<Deps, 'accountPath'>): string => `${accountPath}/${style.name}`
export const iconPath = ({ accountPath }: Pick<Deps, 'accountPath'>): string => `${accountPath}/${icon.name}`

export const styleEndpoints = ({ accountPath }: Pick<Deps, 'accountPath'>): Endpoint[] =>
  assets.map(({ name, document }) => ({ path: `${accountPath}/${name}`, cors: false, document: () => document }))
