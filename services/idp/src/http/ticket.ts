import type { Sealer } from '@platform/runtime/seal'
import { z } from 'zod'
import type { Deps } from '../deps.ts'

/** Of what kind a ticket is, and the cookie of the browser that holds it: for another of either it is none. */
interface TicketOf {
  purpose: string
  cookie: string
}

type TicketDeps = Pick<Deps, 'sealer' | 'now'>

const contextOf = ({ purpose, cookie }: TicketOf): string => `ticket\n${purpose}\n${cookie}`

/**
 * Something that a page gives a browser to bring back with its form, sealed: nobody reads it, changes it, or uses it in
 * another browser, for another purpose or later. It is not single-use by itself. So nothing has to be stored for
 * somebody who has only looked at a page.
 */
export function writeTicket(deps: TicketDeps, of: TicketOf, content: object, lifetimeMs: number): string {
  const text = JSON.stringify({ content, until: deps.now().getTime() + lifetimeMs })
  const { kekId, ciphertext } = deps.sealer.seal(text, contextOf(of))
  return `${kekId}.${ciphertext.toString('base64url')}`
}

/** The content of a ticket of ours, as it was written; undefined for any other text and for one whose time is over. */
export function readTicket<T>(deps: TicketDeps, of: TicketOf, shape: z.ZodType<T>, ticket: string): T | undefined {
  const dot = ticket.lastIndexOf('.')
  const sealed = { kekId: ticket.slice(0, dot), ciphertext: Buffer.from(ticket.slice(dot + 1), 'base64url') }
  const text = openOrRefuse(deps.sealer, sealed, contextOf(of))
  if (text === undefined) return undefined
  const { content, until } = z.object({ content: shape, until: z.number() }).parse(JSON.parse(text))
  return deps.now().getTime() < until ? content : undefined
}

function openOrRefuse(sealer: Sealer, sealed: Parameters<Sealer['open']>[0], context: string): string | undefined {
  try {
    return sealer.open(sealed, context).toString()
  } catch {
    // Not sealed by us, for this browser and purpose. Which of them, the cipher does not say.
    return undefined
  }
}
