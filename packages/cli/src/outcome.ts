import type { Reason } from './exit-codes.ts'

/** A command that goes on from here. */
export interface Next {
  /** After the name of the program. They are quoted where they are printed: some are text of others. */
  words: readonly string[]
  when: string
  /** Whether nothing has to be added, such as `--url`: it is the line that was typed, with more. */
  isWhole?: boolean
}

export const goOn = (when: string, ...words: string[]): Next => ({ words, when })

/** How a command that succeeded ends. */
export interface Outcome {
  /** Of the document; its shape is in schemas/data.json. */
  data: unknown
  /** What people are shown on stdout. */
  text?: string | undefined
  next?: readonly Next[] | undefined
  /** Of a command whose exit code is another program's. Nothing more is printed then. */
  exitCode?: number | undefined
}

interface FailureMembers {
  hint?: string | undefined
  requestId?: string | undefined
  data?: unknown
  next?: readonly Next[] | undefined
  cause?: unknown
}

/** A command that failed for a reason that it can explain. */
export class CommandFailure extends Error {
  readonly reason: Reason
  readonly hint?: string | undefined
  readonly requestId?: string | undefined
  readonly data?: unknown
  readonly next: readonly Next[]

  constructor(reason: Reason, message: string, { hint, requestId, data, next = [], cause }: FailureMembers = {}) {
    super(message, { cause })
    this.name = 'CommandFailure'
    this.reason = reason
    this.hint = hint
    this.requestId = requestId
    this.data = data
    this.next = next
  }
}

/** Throws the failure of a wrong use. */
export function refuse(message: string, members?: FailureMembers): never {
  throw new CommandFailure('usage', message, members)
}
