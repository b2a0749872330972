import { useLayoutEffect } from 'preact/hooks'

/** For a part of a page that goes, and the focus with it: whoever was there is put at the heading of the page. */
export function useHeadingAfter(): void {
  useLayoutEffect(
    () => () =>
      // Once all that goes is gone, and another page, if there is one, has taken the focus.
      queueMicrotask(() => {
        if (document.activeElement !== document.body) return
        document.querySelector<HTMLElement>('#main h1')?.focus({ preventScroll: true })
      }),
    [],
  )
}
