import { Browser } from './browser.ts'

interface ShownCode {
  completeUrl: string
  userCode: string
}

interface Account {
  email: string
  password: string
}

async function decide({ completeUrl, userCode }: ShownCode, person: Account, decision: string): Promise<void> {
  const browser = new Browser()
  const { origin } = new URL(completeUrl)
  let page = await browser.follow(await browser.visit(completeUrl), origin)
  const expect = (isThere: boolean, what: string) => {
    if (!isThere) throw new Error(`Expected ${what}, got ${page.status}: ${page.body.slice(0, 500)}`)
  }
  expect(page.body.includes('name="password"'), 'the sign-in page')
  page = await browser.follow(await browser.submit(page, { email: person.email, password: person.password }), origin)
  expect(page.body.includes(userCode), 'the approval page with the code')
  page = await browser.follow(await browser.submit(page, {}, { name: 'decision', value: decision }), origin)
  expect(page.status === 200, 'the decision to be confirmed')
}

/** Signs a person in on the page of a device's code, and approves. Throws with the page that came instead. */
export const approveDevice = (code: ShownCode, person: Account): Promise<void> => decide(code, person, 'approve')

/** Signs a person in on the page of a device's code, and refuses. Throws with the page that came instead. */
export const refuseDevice = (code: ShownCode, person: Account): Promise<void> => decide(code, person, 'deny')
