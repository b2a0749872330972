/** Waits for work at most `limitMs`, then throws what `onTimeout` makes. The work itself goes on, unheard. */
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
