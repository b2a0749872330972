import type { FunctionKind } from '../function-runtime.ts'

/** What a slot reads on its standard input: one message of JSON. All paths are as the slot sees them. */
export interface BootMessage {
  kind: FunctionKind
  /** The Function's files. */
  folder: string
  /** The module to import. */
  handler?: string
  /** A start script, in place of a module. */
  command?: string
  isWeb: boolean
  hasHelpers: boolean
  variables: Record<string, string>
  /** Where it listens. */
  socketPath: string
  apiSocketPath: string
  assetsSocketPath: string
  cacheSocketPath: string
  /** Of the deployment, in milliseconds since 1970. */
  builtAt: number
}

/** What a slot says on descriptor 3, a line of JSON each. */
export interface SlotMessage {
  ready?: true
  /** A sentence: why it cannot start. */
  failed?: string
  /** An allocation was refused, so it ends. */
  outOfMemory?: true
  pong?: number
  /** The event loop was late by this many milliseconds. */
  lag?: number
}

/** What a slot is told on descriptor 3, a line of JSON each. drain: milliseconds to finish in. */
export type SlotCommand = { ping: number } | { drain: number }
