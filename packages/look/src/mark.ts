import { createHash } from 'node:crypto'
import { cssColour } from './colours.ts'
import { slabs } from './slabs.ts'

/** The mark, for a page whose style defines the colours; the name stands beside it, so it is nothing to be read out. */
export const markSvg = `<svg class="mark" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d="${slabs.upper}" fill="var(--accent)"/><path d="${slabs.lower}" fill="currentColor"/></svg>`

const text = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">
<style>
.upper { fill: ${cssColour('accent', 'light')} }
.lower { fill: ${cssColour('ink', 'light')} }
@media (prefers-color-scheme: dark) { .upper { fill: ${cssColour('accent', 'dark')} } .lower { fill: ${cssColour('ink', 'dark')} } }
</style>
<path class="upper" d="${slabs.upper}"/><path class="lower" d="${slabs.lower}"/>
</svg>
`

/** The mark as the icon of a tab, which stands outside of any page. Its name changes with its content. */
export const icon = {
  name: `icon.${createHash('sha256').update(text).digest('hex').slice(0, 16)}.svg`,
  type: 'image/svg+xml',
  text,
}
