import type { FunctionKind } from '../function-runtime.ts'
import type { HeapBudget } from './heap-watch.ts'

/** A slot's standard input: one JSON message. All paths are as the slot sees them. */
export interface BootMessage {
  kind: FunctionKind
  /** Where it runs. */
  folder: string
  /** The module to import. */
  handler?: string
  /** A start script, instead of a module. */
  command?: string
  isWeb: boolean
  hasHelpers: boolean
  variables: Record<string, string>
  /** The Unix socket on which it listens. */
  socketPath: string
  apiSocketPath: string
  assetsSocketPath: string
  cacheSocketPath: string
  /** When the deployment was built, in milliseconds since 1970. */
  builtAt: number
  heap: HeapBudget
}

/** Messages of a slot on descriptor 3, one JSON line each. */
export interface SlotMessage {
  ready?: true
  /** A sentence: why it cannot start. */
  failed?: string
  /** An allocation was refused, so the slot ends. */
  outOfMemory?: true
  pong?: number
  /** With a pong: the heap is above its budget, and this large at most, in MB. */
  heapPeakMb?: number
  /** It has been for too long, so the slot ends. */
  isHeapTooLarge?: true
  /** The event loop was late by this many milliseconds. */
  lag?: number
}

/** Commands to a slot on descriptor 3, one JSON line each. drain: milliseconds to finish in. */
export type SlotCommand = { ping: number } | { drain: number }
