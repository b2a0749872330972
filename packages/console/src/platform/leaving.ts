import { useLocation } from 'preact-iso'
import { useLayoutEffect, useState } from 'preact/hooks'

type Go = () => void

/** Holds the person on the page at `href`, and asks them before something of it is lost; undefined where nothing would be. */
let hold: { href: string; ask: (go: Go) => void } | undefined

/** Leaves the page that is shown by what `go` does, once the person has agreed to lose what is on it. */
export function leaveBy(go: Go): void {
  if (hold) hold.ask(go)
  else go()
}

/**
 * Lets Back and Forward wait for an answer. Once, and before anything is drawn: the browser calls what listens for `popstate` in the order
 * in which it began to, capturing or not, and a router that heard of it first would draw the other page.
 */
export function watchHistory(): void {
  addEventListener('popstate', (event) => {
    if (!hold || location.href === hold.href) return
    event.stopImmediatePropagation()
    // The address has changed already: this page is put above the one that is wanted, where it was before.
    history.pushState(null, '', hold.href)
    hold.ask(() => history.back())
  })
}

/**
 * Holds the person on this page as long as leaving it loses something. Links, Back and `leaveBy` wait for an answer; closing and reloading
 * the window get the browser's own question.
 *
 * question: there while somebody wants to leave.
 */
export function useHold(isHeld: boolean): { question: { leave: () => void; stay: () => void } | undefined } {
  const { route } = useLocation()
  const [go, setGo] = useState<{ go: Go } | undefined>(undefined)
  // An effect after the drawing would leave a moment between two holds in which nothing asks.
  useLayoutEffect(() => {
    if (!isHeld) return
    const release = new AbortController()
    const { signal } = release
    const ask = (wanted: Go): void =>
      setGo({
        go: () => {
          release.abort()
          hold = undefined
          wanted()
        },
      })
    hold = { href: location.href, ask }
    addEventListener('beforeunload', (event) => event.preventDefault(), { signal })
    // Before the router, which does not catch events on their way down.
    addEventListener(
      'click',
      (event) => {
        const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey
        const link = (event.target as Element).closest('a')
        const isInHere = link?.origin === location.origin && /^(?:_self)?$/i.test(link.target) && !link.download
        // Elsewhere is left with the browser's own question.
        if (!link || !isPlain || !isInHere || link.getAttribute('href')?.startsWith('#') === true) return
        event.preventDefault()
        event.stopImmediatePropagation()
        const { pathname, search, hash } = link
        ask(() => route(pathname + search + hash))
      },
      { capture: true, signal },
    )
    return () => {
      release.abort()
      if (hold?.ask === ask) hold = undefined
      setGo(undefined)
    }
  }, [isHeld])
  return { question: isHeld && go ? { leave: go.go, stay: () => setGo(undefined) } : undefined }
}
