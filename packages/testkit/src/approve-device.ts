import { Browser } from './browser.ts'

/** Signs a person in on the page of a device's code, and approves. Throws with the page that came instead. */
export async function approveDevice(
  { completeUrl, userCode }: { completeUrl: string; userCode: string },
  person: { email: string; password: string },
): Promise<void> {
  const browser = new Browser()
  const { origin } = new URL(completeUrl)
  let page = await browser.follow(await browser.visit(completeUrl), origin)
  const expect = (isThere: boolean, what: string) => {
    if (!isThere) throw new Error(`Expected ${what}, got ${page.status}: ${page.body.slice(0, 500)}`)
  }
  expect(page.body.includes('name="password"'), 'the sign-in page')
  page = await browser.follow(await browser.submit(page, { email: person.email, password: person.password }), origin)
  expect(page.body.includes(userCode), 'the approval page with the code')
  page = await browser.follow(await browser.submit(page, {}, { name: 'decision', value: 'approve' }), origin)
  expect(page.status === 200, 'the approval to be confirmed')
}
