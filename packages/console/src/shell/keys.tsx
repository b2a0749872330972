import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { Button } from '../parts/button.tsx'
import { Modal } from '../parts/dialog.tsx'

const OFF = 'single-keys'

/** Whether keys without a modifier do anything (WCAG 2.1.4): a preference of this browser. */
export const hasSingleKeys = signal(localStorage.getItem(OFF) !== 'off')

export function switchSingleKeys(isOn: boolean): void {
  hasSingleKeys.value = isOn
  if (isOn) localStorage.removeItem(OFF)
  else localStorage.setItem(OFF, 'off')
}

const isApple = /Mac|iPhone|iPad/.test(navigator.platform)
/** As it stands on the keyboard. */
export const PALETTE_KEY = isApple ? '⌘K' : 'Ctrl+K'

export const isPaletteOpen = signal(false)
export const isKeyListOpen = signal(false)

/** Where typed keys are text, or choose something. */
const takesKeys = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || target.matches('input:not([type=checkbox], [type=radio]), textarea, select'))

function onKey(event: KeyboardEvent): void {
  const { key, ctrlKey, metaKey, altKey, defaultPrevented, repeat, target } = event
  if (defaultPrevented || altKey) return
  if ((isApple ? metaKey : ctrlKey) && key.toLowerCase() === 'k') {
    event.preventDefault()
    if (repeat) return
    const palette = document.querySelector<HTMLDialogElement>('dialog#go-to')
    if (!palette) isPaletteOpen.value = true
    // It may be on its way out; closed by the browser, it gives the focus back.
    else if (palette.open) palette.close()
    else palette.showModal()
    return
  }
  // A dialog has its own keys.
  if (ctrlKey || metaKey || !hasSingleKeys.value || takesKeys(target) || document.querySelector('dialog[open]')) return
  if (key === '?') isKeyListOpen.value = true
  else if (key === '/') {
    const field = document.querySelector<HTMLInputElement>('main input[type=search]')
    if (field) field.select()
    else isPaletteOpen.value = true
  } else return
  event.preventDefault()
}

/** Listens to the keys that every page has. */
export function useKeys(): void {
  useEffect(() => {
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
}

const keys = [
  { key: PALETTE_KEY, does: 'Go to a page, or do something' },
  { key: '/', does: 'Search on this page', isSingle: true },
  { key: '?', does: 'Show these keys', isSingle: true },
  { key: isApple ? '⌘F' : 'Ctrl+F', does: 'Find in a log; again, the browser’s own search' },
  { key: '← →', does: 'Read the values of a chart' },
  { key: 'Esc', does: 'Close what is open' },
]

/** The keys, and whether single ones do anything. */
export function KeyList() {
  return (
    <Modal title="Keys" onClose={() => (isKeyListOpen.value = false)}>
      {(close) => (
        <>
          <table class="w-full text-body">
            <tbody>
              {keys.map(({ key, does, isSingle }) => (
                <tr key={key} class={isSingle && !hasSingleKeys.value ? 'text-faint' : ''}>
                  <th scope="row" class="py-1.5 pe-4 text-start font-normal whitespace-nowrap">
                    <kbd class="rounded-badge border border-line bg-sunken px-1.5 py-0.5 font-mono text-note">
                      {key}
                    </kbd>
                  </th>
                  <td class="py-1.5">
                    {does}
                    {isSingle && !hasSingleKeys.value && ' (switched off)'}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          <label class="mt-4 flex items-center gap-2 py-1">
            <input
              type="checkbox"
              class="size-4 accent-accent"
              checked={hasSingleKeys.value}
              onChange={({ currentTarget }) => switchSingleKeys(currentTarget.checked)}
            />
            Keys without Ctrl or ⌘ do something
          </label>
          <div class="mt-4 flex justify-end">
            <Button autofocus onClick={close}>
              Close
            </Button>
          </div>
        </>
      )}
    </Modal>
  )
}
