import { useLocation } from 'preact-iso'

/**
 * Takes the open form out of the address, as that is when it is called: the person may have chosen something else of the page since. The focus
 * goes to what opened the form, unless it is outside of it.
 */
export function useCloseForm(): () => void {
  const { route } = useLocation()
  return () => {
    const members = new URLSearchParams(location.search)
    const opener = members.has('new') ? 'new-variable' : 'paste'
    members.delete('new')
    members.delete('paste')
    const isElsewhere = isAtOther(document.activeElement)
    route(members.size === 0 ? location.pathname : `${location.pathname}?${members.toString()}`, true)
    if (!isElsewhere) document.getElementById(opener)?.focus()
  }
}

/** A form within the table of variables is another one. */
function isAtOther(element: Element | null): boolean {
  if (!element || element === document.body) return false
  const form = element.closest('form')
  return !form || form.closest('table') !== null
}
