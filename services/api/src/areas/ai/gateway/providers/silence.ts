/** Calls back when the provider has been silent for this long. Time spent waiting for a slow reader does not count. */
export function watchSilence(ms: number, onSilence: () => void) {
  let isOthersTurn = false
  const timer = setTimeout(() => {
    if (isOthersTurn) timer.refresh()
    else onSilence()
  }, ms)
  return {
    touch: () => void timer.refresh(),
    async during(work: Promise<void>) {
      isOthersTurn = true
      await work
      isOthersTurn = false
      timer.refresh()
    },
    stop: () => clearTimeout(timer),
  }
}
