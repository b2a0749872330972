import { openText, sealText } from '@platform/runtime/sealed-text'
import { z } from 'zod'
import type { Deps } from '../deps.ts'

/** A ticket's purpose and the cookie of the browser that holds it; a ticket is invalid for any other of either. */
interface TicketOf {
  purpose: string
  cookie: string
}

type TicketDeps = Pick<Deps, 'sealer' | 'now'>

const contextOf = ({ purpose, cookie }: TicketOf): string => `ticket\n${purpose}\n${cookie}`

/**
 * Seals a value that a page gives a browser to send back with its form. Nobody can read it, change it, or use it in another
 * browser, for another purpose or after it expires. It is not single-use by itself. With it, nothing has to be stored for a
 * user who only looks at a page.
 */
export function writeTicket(deps: TicketDeps, of: TicketOf, content: object, lifetimeMs: number): string {
  const text = JSON.stringify({ content, until: deps.now().getTime() + lifetimeMs })
  return sealText(deps.sealer, text, contextOf(of), 'plain')
}

/** The content of a ticket, as it was written; undefined if it is expired or not one of ours. */
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
