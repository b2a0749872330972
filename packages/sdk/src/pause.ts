import { abortable } from './abortable.ts'

/** Waits; throws the signal's reason as soon as it is aborted. No timer stays behind. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  return abortable(new Promise<void>((resolve) => (timer = setTimeout(resolve, ms))), signal).finally(() =>
    clearTimeout(timer),
  )
}
