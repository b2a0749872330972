import { html } from 'hono/html'
import { encode } from 'uqr'
import type { Markup } from '../../site/answer-page.ts'

/** The white margin that scanners need, in modules. */
const MARGIN = 4

/** A QR code as one path, dark on light in either colour scheme: many scanners do not read inverted ones. */
export function qrCode(text: string, label: string): Markup {
  const { data, size } = encode(text, { ecc: 'M', border: 0 })
  const path = data.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : ''))).join('')
  const box = `${-MARGIN} ${-MARGIN} ${size + 2 * MARGIN} ${size + 2 * MARGIN}`
  return html`<svg class="qr" role="img" aria-label="${label}" viewBox="${box}" shape-rendering="crispEdges">
    <rect x="${-MARGIN}" y="${-MARGIN}" width="100%" height="100%" fill="#fff" />
    <path d="${path}" fill="#000" />
  </svg>`
}
