import { describeInChromium } from '@platform/testkit/chromium'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestIdp, type TestIdp } from '../../test/start.ts'

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

describeInChromium('showing a password', (open) => {
  test('takes a click and another, and the form sends it hidden', async () => {
    const { page } = await open()
    const { email, password } = await idp.person()
    await page.goto(`${idp.url}/sign-in`)
    const field = page.getByLabel('Password', { exact: true })
    const button = page.getByRole('button', { name: 'Show password' })
    await page.getByLabel('Email').fill(email)
    await field.fill(password)
    expect([await field.getAttribute('type'), await button.getAttribute('aria-pressed')]).toEqual(['password', 'false'])
    await button.click()
    expect([await field.getAttribute('type'), await button.getAttribute('aria-pressed')]).toEqual(['text', 'true'])
    expect(await field.inputValue()).toBe(password)
    await button.click()
    expect(await field.getAttribute('type')).toBe('password')
    await button.click()
    await page.evaluate(`document.forms[0].addEventListener('submit', () => {
      sessionStorage.setItem('sent as', document.querySelector('[name=password]').type)
    })`)
    await field.press('Enter')
    await page.waitForURL(`${idp.url}/`)
    expect(await page.evaluate<string>("sessionStorage.getItem('sent as')")).toBe('password')
  })

  test('is one button for all passwords of a form', async () => {
    const { page } = await open()
    const { email, password } = await idp.person()
    await page.goto(`${idp.url}/sign-in?returnTo=/password`)
    await page.getByLabel('Email').fill(email)
    await page.getByLabel('Password', { exact: true }).fill(password)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.waitForURL(`${idp.url}/password`)
    await page.getByRole('button', { name: 'Show passwords' }).click()
    expect(await page.locator('input[type=password]').count()).toBe(0)
    await page.getByRole('button', { name: 'Show passwords' }).click()
    expect(await page.locator('input[type=password]').count()).toBe(3)
  })

  test('is not offered without JavaScript', async () => {
    const { page } = await open({ javaScriptEnabled: false })
    await page.goto(`${idp.url}/sign-in`)
    expect(await page.getByRole('button', { name: 'Show password' }).count()).toBe(0)
  })
})
