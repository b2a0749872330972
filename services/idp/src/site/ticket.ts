import { openText, sealText } from '@platform/runtime/sealed-text'
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
  return sealText(deps.sealer, text, contextOf(of), 'plain')
}

/** The content of a ticket of ours, as it was written; undefined for any other text and for one whose time is over. */
export function readTicket<T>(deps: TicketDeps, of: TicketOf, shape: z.ZodType<T>, ticket: string): T | undefined {
  const text = openOrRefuse(deps, of, ticket)
  if (text === undefined) return undefined
  const { content, until } = z.object({ content: shape, until: z.number() }).parse(JSON.parse(text))
  return deps.now().getTime() < until ? content : undefined
}

function openOrRefuse({ sealer }: TicketDeps, of: TicketOf, ticket: string): string | undefined {
  try {
    return openText(sealer, ticket, contextOf(of), 'plain')
  } catch {
    // Not sealed by us, or for another browser or purpose. The cipher does not say which.
    return undefined
  }
}
