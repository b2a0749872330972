const RELOADED = 'reloaded-for'

/**
 * A window that is older than an upgrade of the platform asks for parts that are gone. It is loaded anew, once for each part: if that does not
 * help, the failure is shown.
 */
export function reloadWhenUpgraded(): void {
  addEventListener('vite:preloadError', (event) => {
    const { message } = event.payload
    if (sessionStorage.getItem(RELOADED) === message) return
    event.preventDefault()
    sessionStorage.setItem(RELOADED, message)
    location.reload()
  })
}
