import type { Page } from 'playwright-core'

/**
 * Which texts are in strings of a page's memory, after everything that nothing holds was thrown away. texts: letters and digits, within the
 * first 1,024 characters of their strings, which are all that a snapshot has. Type them by `page.keyboard`: what a test hands to scripts of
 * the page stays there.
 */
export async function areInHeap(page: Page, texts: readonly string[]): Promise<boolean[]> {
  const cdp = await page.context().newCDPSession(page)
  const found = texts.map(() => false)
  const longest = Math.max(...texts.map(({ length }) => length))
  let tail = ''
  cdp.on('HeapProfiler.addHeapSnapshotChunk', ({ chunk }) => {
    const known = tail + chunk
    texts.forEach((text, nth) => (found[nth] ||= known.includes(text)))
    tail = known.slice(-longest)
  })
  await cdp.send('HeapProfiler.takeHeapSnapshot')
  await cdp.detach()
  return found
}
