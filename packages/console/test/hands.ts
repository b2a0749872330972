import type { Locator, Page } from 'playwright-core'

/** How somebody reaches and uses what is on a page. */
export interface Hand {
  press(target: Locator): Promise<void>
  type(target: Locator, text: string): Promise<void>
  /** Of a list of choices, that with the text, or of radio buttons the target itself. */
  choose(target: Locator, text?: string): Promise<void>
}

const mouse: Hand = {
  press: (target) => target.click(),
  type: async (target, text) => {
    await target.click()
    await target.pressSequentially(text)
  },
  choose: async (target, text) => {
    if (text === undefined) await target.check()
    else await target.selectOption(text)
  },
}

/** Goes on by Tab until the target has the focus; fails where it is not within reach. */
async function tabTo(page: Page, target: Locator): Promise<void> {
  await target.waitFor()
  for (let presses = 0; presses < 80; presses++) {
    if (await target.evaluate((element) => element === document.activeElement)) return
    await page.keyboard.press('Tab')
  }
  throw new Error(`${String(target)} is not within reach of Tab`)
}

const keyboard = (page: Page): Hand => ({
  async press(target) {
    await tabTo(page, target)
    await page.keyboard.press('Enter')
  },
  async type(target, text) {
    await tabTo(page, target)
    await page.keyboard.type(text)
  },
  async choose(target, text) {
    if (text !== undefined) {
      await tabTo(page, target)
      return page.keyboard.type(text)
    }
    // Tab leads to that of a group which is checked, and the arrow keys to the others.
    const group = page.locator(`input[name="${await target.getAttribute('name')}"]`)
    await tabTo(page, group.and(page.locator(':checked')))
    for (let presses = await group.count(); presses > 0 && !(await target.isChecked()); presses--)
      await page.keyboard.press('ArrowDown')
  },
})

export const means = ['mouse', 'keyboard'] as const

/** Somebody who uses a page by one means alone. */
export const handOf = (page: Page, by: (typeof means)[number]): Hand => (by === 'mouse' ? mouse : keyboard(page))
