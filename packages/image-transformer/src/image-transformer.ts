import { type ChildProcess, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { readFrames, writeFrame } from './frames.ts'
import { ImageFailure, type ImageWish, type TransformedImage } from './image-wish.ts'
import type { ChildAnswer } from './transform-child.ts'

export { ImageFailure, type ImageWish } from './image-wish.ts'

/** Longer sources are rejected. */
export const INPUT_BYTES_MAX = 20 * 1_024 * 1_024
const OUTPUT_BYTES_MAX = 64 * 1_024 * 1_024

/** Transforms images in child processes, which are killed if they take too long. */
export interface ImageTransformer {
  /** Throws ImageFailure, or an Error if a child cannot be started. The first call starts a child, which takes about 0.2 s. */
  transform(input: Buffer, wish: ImageWish): Promise<TransformedImage>
  /** Ends the children; transforms in progress fail as `busy`. */
  close(): void
}

export interface TransformerOptions {
  /** Counted from when a child has the image. */
  deadlineMs?: number
  /** Maximum children, and so images, at a time. */
  atOnce?: number
  /** Maximum images waiting for a child, and how long they wait; beyond either they fail as `busy`. */
  waitingMax?: number
  waitMs?: number
  /** Maximum writable memory of a child (RLIMIT_DATA). Node maps 650 MiB and uses 70; the largest AVIF takes 400 MiB more. */
  memoryBytes?: number
  /** A child without work ends after this time. */
  idleMs?: number
}

interface Job {
  input: Buffer
  wish: ImageWish
  resolve: (image: TransformedImage) => void
  reject: (error: Error) => void
}

interface Child {
  process: ChildProcess & { stdin: Writable; stdout: Readable }
  job: Job | undefined
  /** Its deadline while it works, else its idle timeout. */
  timer: NodeJS.Timeout | undefined
}

const childFile = fileURLToPath(new URL('./transform-child.ts', import.meta.url))

/** Passes nothing of this process's environment on: the child reads untrusted input. */
function startProcess(memoryBytes: number): Child['process'] {
  const limits = 'ulimit -c 0; ulimit -d "$1" 2> /dev/null; shift; exec "$@"'
  const node = [process.execPath, '--max-old-space-size=64', '--disable-warning=ExperimentalWarning', childFile]
  return spawn('/bin/sh', ['-c', limits, 'sh', String(Math.floor(memoryBytes / 1_024)), ...node], {
    stdio: ['pipe', 'pipe', 'ignore'],
    // Fewer arenas keep free memory together.
    env: { MALLOC_ARENA_MAX: '2' },
    cwd: '/',
  })
}

/** Opens a transformer. It loads nothing and starts no process before the first image. */
export function openImageTransformer({
  deadlineMs = 5_000,
  atOnce = 2,
  waitingMax = 16,
  waitMs = 5_000,
  memoryBytes = 1_536 * 1_024 * 1_024,
  idleMs = 60_000,
}: TransformerOptions = {}): ImageTransformer {
  const children = new Set<Child>()
  const waiting: (Job & { late: NodeJS.Timeout })[] = []
  let isClosed = false

  function start(): Child {
    const child: Child = { process: startProcess(memoryBytes), job: undefined, timer: undefined }
    children.add(child)
    readFrames<ChildAnswer>(child.process.stdout, OUTPUT_BYTES_MAX, ({ head, body }) => finish(child, head, body))
    // However the child ends, its exit fails the job. Writing to an ended child is not a separate failure.
    child.process.stdin.on('error', () => {})
    child.process.on('error', (error) => lose(child, error))
    // A signal means that it ended while processing an image; an exit code, that it never got that far.
    child.process.once('close', (code) =>
      lose(child, code === null ? undefined : new Error(`The process that transforms images ended with code ${code}`)),
    )
    // Idle children do not keep the process alive: they end with their standard input.
    child.process.unref()
    return child
  }

  function end(child: Child): void {
    clearTimeout(child.timer)
    children.delete(child)
    child.process.kill('SIGKILL')
  }

  /** Handles a child that ended by itself: out of memory, or by an image that crashes its decoder. */
  function lose(child: Child, cause?: Error): void {
    const { job } = child
    child.job = undefined
    end(child)
    job?.reject(
      isClosed
        ? new ImageFailure('busy', 'The transformer is closed')
        : (cause ?? new ImageFailure('too_large', 'The image needs more memory than it may have, or cannot be read')),
    )
    next()
  }

  function finish(child: Child, head: ChildAnswer, content: Buffer): void {
    const { job } = child
    if (!job) return
    child.job = undefined
    clearTimeout(child.timer)
    child.timer = setTimeout(() => end(child), idleMs).unref()
    switch (head.kind) {
      case 'image':
        job.resolve({ ...head, content })
        break
      case 'unchanged':
        job.resolve(head)
        break
      case 'failure':
        job.reject(new ImageFailure(head.code, head.message))
        break
    }
    next()
  }

  function run(child: Child, job: Job): void {
    clearTimeout(child.timer)
    child.job = job
    child.timer = setTimeout(() => {
      child.job = undefined
      // Nothing less stops a running encoder.
      end(child)
      job.reject(new ImageFailure('too_slow', `The image took longer than ${deadlineMs / 1_000} s`))
      next()
    }, deadlineMs)
    writeFrame(child.process.stdin, { head: job.wish, body: job.input })
  }

  const freeChild = (): Child | undefined => {
    for (const child of children) if (!child.job) return child
    return children.size < atOnce ? start() : undefined
  }

  function next(): void {
    if (isClosed) return
    const [job] = waiting
    const child = job && freeChild()
    if (!job || !child) return
    waiting.shift()
    clearTimeout(job.late)
    run(child, job)
  }

  return {
    transform(input, wish) {
      return new Promise((resolve, reject) => {
        if (input.length > INPUT_BYTES_MAX) {
          reject(new ImageFailure('too_large', `The source has more than ${INPUT_BYTES_MAX} bytes`))
          return
        }
        if (isClosed) {
          reject(new ImageFailure('busy', 'The transformer is closed'))
          return
        }
        const job: Job = { input, wish, resolve, reject }
        const child = waiting.length === 0 ? freeChild() : undefined
        if (child) {
          run(child, job)
          return
        }
        if (waiting.length >= waitingMax) {
          reject(new ImageFailure('busy', 'Too many images wait already'))
          return
        }
        const waiter = {
          ...job,
          late: setTimeout(() => {
            waiting.splice(waiting.indexOf(waiter), 1)
            reject(new ImageFailure('busy', 'Other images took too long'))
          }, waitMs),
        }
        waiting.push(waiter)
      })
    },
    close() {
      isClosed = true
      for (const { late, reject } of waiting.splice(0)) {
        clearTimeout(late)
        reject(new ImageFailure('busy', 'The transformer is closed'))
      }
      for (const child of children) lose(child)
    },
  }
}
