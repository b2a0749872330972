import { createHash } from 'node:crypto'
import type { Deps } from '../deps.ts'
import type { Endpoint } from '../http/app.ts'
import { documentOf } from '../http/document.ts'

const css = `
:root {
  color-scheme: light dark;
  --ground: light-dark(#f4f5f7, #101216);
  --card: light-dark(#ffffff, #191c22);
  --ink: light-dark(#16181d, #eceef2);
  --soft: light-dark(#5b6270, #a2a9b8);
  --line: light-dark(#d9dce3, #2e333d);
  --accent: light-dark(#2b50d8, #8ea8ff);
  --on-accent: light-dark(#ffffff, #0d1226);
  --alert: light-dark(#a3211b, #ff9d94);
  --alert-ground: light-dark(#fdecea, #35191a);
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
body {
  margin: 0;
  min-height: 100dvh;
  display: grid;
  grid-template-rows: 1fr auto;
  justify-items: center;
  background: var(--ground);
  color: var(--ink);
  font: 1rem/1.5 ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main {
  align-self: center;
  width: min(27rem, 100% - 2rem);
  margin: 2rem 0;
  padding: 2rem;
  background: var(--card);
  border: 1px solid var(--line);
  border-radius: 1rem;
  box-shadow: 0 1px 2px rgb(0 0 0 / 0.05), 0 12px 32px rgb(0 0 0 / 0.06);
}
footer { padding: 0 1rem 1.5rem; color: var(--soft); font-size: 0.875rem; text-align: center; overflow-wrap: anywhere; }
.brand { display: flex; align-items: center; gap: 0.5rem; margin: 0 0 1.5rem; font-weight: 650; letter-spacing: -0.01em; }
.brand::before { content: ""; width: 1.125rem; height: 1.125rem; border-radius: 0.3rem; background: var(--accent); }
h1 { margin: 0 0 0.5rem; font-size: 1.5rem; line-height: 1.25; letter-spacing: -0.02em; overflow-wrap: anywhere; }
p { margin: 0 0 1rem; overflow-wrap: anywhere; }
.soft { color: var(--soft); }
strong { font-weight: 650; }
a { color: var(--accent); text-underline-offset: 0.2em; }
form { margin: 1.5rem 0 0; display: grid; grid-template-columns: minmax(0, 1fr); gap: 1rem; }
form + p { margin: 1rem 0 0; }
main > :last-child { margin-bottom: 0; }
label { display: grid; gap: 0.375rem; font-weight: 550; font-size: 0.9375rem; }
input {
  width: 100%;
  padding: 0.625rem 0.75rem;
  font: inherit;
  font-size: 1rem;
  font-weight: 400;
  color: inherit;
  background: var(--ground);
  border: 1px solid light-dark(#8b92a1, #626978);
  border-radius: 0.5rem;
}
input[type="checkbox"] { width: 1.125rem; height: 1.125rem; margin: 0; accent-color: var(--accent); }
.choice { display: flex; align-items: center; gap: 0.625rem; font-weight: 400; }
.code-entry { font: 600 1.375rem/1.4 ui-monospace, "SF Mono", Menlo, Consolas, monospace; letter-spacing: 0.08em; text-transform: uppercase; text-align: center; }
button {
  width: 100%;
  min-height: 2.75rem;
  padding: 0.625rem 1rem;
  font: inherit;
  font-weight: 600;
  color: var(--on-accent);
  background: var(--accent);
  border: 1px solid transparent;
  border-radius: 0.5rem;
  cursor: pointer;
  overflow-wrap: anywhere;
}
button:hover { filter: brightness(1.08); }
button.small { width: auto; justify-self: start; min-height: 2.25rem; padding: 0.3125rem 0.875rem; font-size: 0.9375rem; }
button.second { color: var(--ink); background: transparent; border-color: light-dark(#8b92a1, #626978); }
button.second:hover { background: var(--ground); filter: none; }
button.reveal { width: auto; justify-self: end; min-height: 1.75rem; margin-top: -0.625rem; padding: 0 0.5rem; font-size: 0.875rem; color: var(--accent); background: transparent; }
button.reveal[aria-pressed="true"] { border-color: currentColor; }
a.button { display: block; padding: 0.625rem 1rem; text-align: center; font-weight: 600; color: var(--on-accent); background: var(--accent); border: 1px solid transparent; border-radius: 0.5rem; text-decoration: none; }
a.button:hover { filter: brightness(1.08); }
.buttons { display: grid; grid-template-columns: 1fr 1fr; gap: 0.75rem; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.alert {
  margin: 1rem 0 0;
  padding: 0.75rem 1rem;
  color: var(--alert);
  background: var(--alert-ground);
  border-radius: 0.5rem;
}
.alert + p { margin-top: 1rem; }
form > .alert { margin: 0; }
form > .alert + p { margin-top: 0; }
.alert > p { margin: 0 0 0.5rem; }
.alert > :last-child { margin: 0; }
.code {
  margin: 1rem 0;
  padding: 0.75rem;
  font: 650 1.75rem/1.2 ui-monospace, "SF Mono", Menlo, Consolas, monospace;
  letter-spacing: 0.08em;
  text-align: center;
  background: var(--ground);
  border: 1px dashed light-dark(#8b92a1, #626978);
  border-radius: 0.5rem;
}
dl { margin: 1rem 0; display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0.25rem 1rem; font-size: 0.9375rem; }
dt { color: var(--soft); white-space: nowrap; }
dd { margin: 0; overflow-wrap: anywhere; }
ul.scopes { margin: 0.5rem 0 0; padding: 0; list-style: none; border: 1px solid var(--line); border-radius: 0.5rem; }
ul.scopes li { display: flex; justify-content: space-between; align-items: baseline; gap: 0.75rem; padding: 0.5rem 0.75rem; font-size: 0.9375rem; overflow-wrap: anywhere; }
ul.scopes li + li { border-top: 1px solid var(--line); }
h2 { margin: 1.25rem 0 0; font-size: 0.9375rem; }
h3 { margin: 0.875rem 0 0; font-size: 0.875rem; font-weight: 550; color: var(--soft); }
ul.links { margin: 1.5rem 0 0; padding: 0; list-style: none; border: 1px solid var(--line); border-radius: 0.5rem; overflow: hidden; }
ul.links li + li { border-top: 1px solid var(--line); }
ul.links a { display: flex; justify-content: space-between; gap: 1rem; padding: 0.6875rem 0.875rem; color: inherit; text-decoration: none; font-weight: 550; }
ul.links a::after { content: "\\203A" / ""; color: var(--soft); }
ul.links a:hover { background: var(--ground); }
ul.links a:focus-visible { outline-offset: -3px; border-radius: 0.5rem; }
ul.items { margin: 1.25rem 0 0; padding: 0; list-style: none; display: grid; grid-template-columns: minmax(0, 1fr); gap: 0.75rem; }
ul.items > li { padding: 0.875rem 1rem 1rem; border: 1px solid var(--line); border-radius: 0.625rem; }
ul.items h2 { margin: 0; display: flex; flex-wrap: wrap; align-items: center; gap: 0.25rem 0.625rem; font-size: 1rem; overflow-wrap: anywhere; }
ul.items dl { margin: 0.5rem 0 0; gap: 0.125rem 0.875rem; }
ul.items form { margin: 0.875rem 0 0; }
ul.items + form { padding-top: 1.25rem; border-top: 1px solid var(--line); }
ul.machines { margin: 0.375rem 0 0; padding: 0; list-style: none; border-bottom: 1px solid var(--line); }
ul.machines > li { padding: 0.625rem 0 0.875rem; font-size: 0.9375rem; overflow-wrap: anywhere; border-top: 1px solid var(--line); }
ul.machines + p { margin: 0.5rem 0 0; font-size: 0.9375rem; }
ul.items ul.machines form { margin: 0.625rem 0 0; }
ul.items ul.machines dl { margin: 0.25rem 0 0; }
form > p { margin: 0; }
.mark { display: inline-block; white-space: nowrap; padding: 0.0625rem 0.5rem; font-size: 0.8125rem; font-weight: 600; color: var(--accent); border: 1px solid currentColor; border-radius: 1rem; }
.mark.danger { color: var(--alert); }
.empty { margin: 1.25rem 0; padding: 1.25rem 1rem; text-align: center; color: var(--soft); border: 1px dashed light-dark(#8b92a1, #626978); border-radius: 0.625rem; }
details { margin: 0.625rem 0 0; }
summary { font-size: 0.9375rem; font-weight: 550; cursor: pointer; }
details + details { border-top: 1px solid var(--line); padding-top: 0.625rem; }
details > p { margin: 0.5rem 0 0; }
details > form { margin: 0.75rem 0 0.5rem; }
form + details { margin-top: 1.25rem; }
.qr { display: block; width: min(13rem, 100%); margin: 1.25rem auto; border-radius: 0.5rem; }
.secret { font: 600 1rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; text-align: center; }
ol.codes { margin: 1rem 0; padding: 0.75rem; list-style: none; display: grid; grid-template-columns: repeat(auto-fit, minmax(11.5rem, 1fr)); gap: 0.25rem 1rem; justify-items: center; font: 600 0.9375rem/1.6 ui-monospace, "SF Mono", Menlo, Consolas, monospace; background: var(--ground); border: 1px dashed light-dark(#8b92a1, #626978); border-radius: 0.5rem; }
.takes { display: grid; grid-template-columns: repeat(3, auto); gap: 0.5rem; margin: 0 0 1rem; }
.takes button { min-height: 2.5rem; padding: 0.375rem 0.5rem; font-size: 0.9375rem; }
.takes > p { grid-column: 1 / -1; margin: 0; font-size: 0.9375rem; }
.takes > p:empty { display: none; }
.after { margin: 1.25rem 0 0; }
.back { margin: 1.5rem 0 0; }
@media (max-width: 26rem) {
  main { padding: 1.5rem 1.25rem; margin: 1rem 0; }
  .buttons { grid-template-columns: 1fr; }
}
@media print {
  body:has(ol.codes) { background: none; }
  main:has(> ol.codes) > :not(ol.codes), main:has(> ol.codes) + footer { display: none; }
  main:has(> ol.codes) { margin: 0; padding: 0; border: 0; box-shadow: none; align-self: start; justify-self: start; color: #000; background: #fff; }
  main > ol.codes { background: none; border: 0; justify-items: start; font-size: 12pt; }
}
@media (prefers-reduced-motion: no-preference) { button { transition: filter 0.12s, background 0.12s; } }
`

const name = createHash('sha256').update(css).digest('hex').slice(0, 16)

/** Path of the one style sheet; its name changes with its content, so it may be cached for ever. */
export const stylePath = ({ accountPath }: Pick<Deps, 'accountPath'>): string => `${accountPath}/style.${name}.css`

const style = documentOf(css, {
  type: 'text/css; charset=utf-8',
  cacheControl: 'public, max-age=31536000, immutable',
})

export const styleEndpoint = (deps: Pick<Deps, 'accountPath'>): Endpoint => ({
  path: stylePath(deps),
  cors: false,
  document: () => style,
})
