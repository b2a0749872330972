/** Waits for work at most `limitMs`, then throws `onTimeout()`. The work continues; its result is ignored. */
export async function withDeadline<T>(limitMs: number, onTimeout: () => Error, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(onTimeout()), limitMs)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
