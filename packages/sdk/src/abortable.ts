/** The promise, or the signal's reason as soon as it is aborted. The work goes on for others who wait for it. */
export const abortable = <T>(promise: Promise<T>, signal?: AbortSignal): Promise<T> =>
  new Promise((resolve, reject) => {
    const stop = () => reject(signal?.reason as Error)
    if (signal?.aborted) stop()
    signal?.addEventListener('abort', stop)
    promise.then(resolve, reject).finally(() => signal?.removeEventListener('abort', stop))
  })
